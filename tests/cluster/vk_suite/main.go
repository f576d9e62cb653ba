// Runs the virtual-kubelet project's end-to-end suite against a node, as a program of its own.
package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/test/e2e"
)

func main() {
	suite := e2e.NewEndToEndTestSuite(e2e.EndToEndTestSuiteConfig{
		Kubeconfig:   os.Getenv("SUITE_KUBECONFIG"),
		Namespace:    os.Getenv("SUITE_NAMESPACE"),
		NodeName:     os.Getenv("SUITE_NODE"),
		WatchTimeout: 30 * time.Second,
	})
	match := func(pattern, name string) (bool, error) { return regexp.MatchString(pattern, name) }
	tests := []testing.InternalTest{{Name: "Suite", F: suite.Run}}
	testing.Main(match, tests, nil, nil)
}
