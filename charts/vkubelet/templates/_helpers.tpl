{{/* Name of everything: one release a peering, so a second one for the same peering meets it. */}}
{{- define "vkubelet.name" -}}
{{- $cluster := .Values.config.remote.cluster -}}
{{- if gt (len $cluster) 45 -}}
vkubelet-{{ trunc 36 $cluster | trimSuffix "-" }}-{{ sha256sum $cluster | trunc 8 }}
{{- else -}}
vkubelet-{{ $cluster }}
{{- end -}}
{{- end }}

{{- define "vkubelet.selector" -}}
app.kubernetes.io/name: vkubelet
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "vkubelet.labels" -}}
{{ include "vkubelet.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "vkubelet.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "vkubelet.systemNamespace" -}}
{{ (.Values.config.home).systemNamespace | default .Release.Namespace }}
{{- end }}

{{- define "vkubelet.username" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "vkubelet.name" . }}
{{- end }}

{{/* The configuration file: what the user decides, and what follows from where it runs. */}}
{{- define "vkubelet.configuration" -}}
{{- $forced := dict
  "remote" (dict "kubeconfig" (printf "/etc/vkubelet/remote/%s" .Values.remoteKubeconfig.key))
  "process" (dict "healthAddress" (printf ":%d" (int .Values.healthPort)) "dataDir" "/var/lib/vkubelet")
-}}
{{- $config := mergeOverwrite (deepCopy .Values.config) $forced -}}
{{- range $section, $values := $config -}}
{{- if not $values }}{{ $config = omit $config $section }}{{ end -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{/* Whether every reflected namespace is known by name: "true" or nothing. */}}
{{- define "vkubelet.allNamed" -}}
{{- $names := .Values.config.namespaces.names | default list -}}
{{- if and $names (not (has "*" $names)) (not .Values.config.namespaces.selector) -}}
true
{{- end -}}
{{- end }}

{{/* Whether certificates come by CSR: "true" or nothing. */}}
{{- define "vkubelet.byCSR" -}}
{{- if eq ((.Values.config.kubelet).certificates | default "csr") "csr" }}true{{ end -}}
{{- end }}

{{- define "vkubelet.signerName" -}}
{{ (.Values.config.kubelet).signerName | default "kubernetes.io/kubelet-serving" }}
{{- end }}

{{/* The kubelet ports: a list of first and last. */}}
{{- define "vkubelet.ports" -}}
{{- $ports := (.Values.config.kubelet).ports | default "10250-10549" -}}
{{ splitList "-" $ports | toJson }}
{{- end }}

{{/*
A CEL list of regular expressions: names that Nodes of this peering can have. Those that start with
the peering's name are always among them, as a change of the mapping leaves such ones to be removed.
*/}}
{{- define "vkubelet.nodeNames" -}}
{{- $nodes := .Values.config.nodes | default dict -}}
{{- $cluster := .Values.config.remote.cluster -}}
{{- $mapping := $nodes.mapping | default "cluster" -}}
{{- $patterns := list (printf "%s(-.+)?" (regexQuoteMeta $cluster)) -}}
{{- if eq $mapping "cluster" -}}
{{- with $nodes.name }}{{ $patterns = append $patterns (printf "%s(-[0-9]+)?" (regexQuoteMeta .)) }}{{ end -}}
{{- else if eq $mapping "selector" -}}
{{- range $nodes.virtualNodes -}}
{{- $patterns = append $patterns (printf "%s(-[0-9]+)?" (regexQuoteMeta (first (splitList "=" .)))) -}}
{{- end -}}
{{- else if and (has $mapping (list "label" "per-node")) (not $nodes.exactNames) -}}
{{- with $nodes.namePrefix }}{{ $patterns = append $patterns (printf "%s.+" (regexQuoteMeta .)) }}{{ end -}}
{{- else if not .Values.admissionPolicy.nodeNames -}}
{{- fail (printf "admissionPolicy.nodeNames is needed, as names don't follow from config.nodes (mapping %s%s); or admissionPolicy.enabled=false" $mapping (ternary ", exactNames" "" ($nodes.exactNames | default false))) -}}
{{- end -}}
{{- $patterns = concat $patterns .Values.admissionPolicy.nodeNames -}}
{{- $anchored := list -}}
{{- range $patterns }}{{ $anchored = append $anchored (printf "^(%s)$" .) }}{{ end -}}
{{ toJson $anchored }}
{{- end }}

{{/* Subject of all bindings. */}}
{{- define "vkubelet.subjects" -}}
- kind: ServiceAccount
  name: {{ include "vkubelet.name" . }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* What keeps a pod off virtual nodes. */}}
{{- define "vkubelet.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: type
            operator: NotIn
            values: [virtual-kubelet]
{{- end }}

{{- define "vkubelet.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "vkubelet.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Rights on what the pods of a reflected namespace need. */}}
{{- define "vkubelet.dependentRules" -}}
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [list, watch]
{{- if eq ((.Values.config.pods).apiAccess | default "none") "home" }}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  verbs: [create]
{{- end }}
{{- end }}

{{/* The part that all admission policies share: whom they are about. */}}
{{- define "vkubelet.policyConditions" -}}
- name: is-this-process
  expression: request.userInfo.username == {{ include "vkubelet.username" . | quote }}
{{- end }}

{{/* Where `helm test` runs its pod, if that is known: the first namespace that is named. */}}
{{- define "vkubelet.testNamespace" -}}
{{- $named := without (.Values.config.namespaces.names | default list) "*" -}}
{{- if $named }}{{ first $named }}{{ else if not .Values.config.namespaces.selector }}default{{ end -}}
{{- end }}

{{- define "vkubelet.testRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}

{{/* Words, each quoted for a shell: a JSON list. */}}
{{- define "vkubelet.quoted" -}}
{{- $words := list -}}
{{- range . }}{{ $words = append $words (printf "'%s'" (replace "'" "'\"'\"'" .)) }}{{ end -}}
{{ toJson $words }}
{{- end }}
