// Runs the virtual-kubelet project's end-to-end suite against a node, as a program of its own.
package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/test/e2e"
)

func main() {
	skipped := strings.Split(os.Getenv("SUITE_SKIPPED"), ",")
	suite := e2e.NewEndToEndTestSuite(e2e.EndToEndTestSuiteConfig{
		Kubeconfig:   os.Getenv("SUITE_KUBECONFIG"),
		Namespace:    os.Getenv("SUITE_NAMESPACE"),
		NodeName:     os.Getenv("SUITE_NODE"),
		WatchTimeout: 30 * time.Second,
		ShouldSkipTest: func(name string) bool {
			for _, other := range skipped {
				if name == other {
					return true
				}
			}
			return false
		},
	})
	match := func(pattern, name string) (bool, error) { return regexp.MatchString(pattern, name) }
	tests := []testing.InternalTest{{Name: "Suite", F: suite.Run}}
	testing.Main(match, tests, nil, nil)
}
