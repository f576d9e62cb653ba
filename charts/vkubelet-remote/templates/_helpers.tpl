{{- define "vkubelet-remote.name" -}}
{{- $peering := .Values.peering -}}
{{- if gt (len $peering) 45 -}}
vkubelet-remote-{{ trunc 36 $peering | trimSuffix "-" }}-{{ sha256sum $peering | trunc 8 }}
{{- else -}}
vkubelet-remote-{{ $peering }}
{{- end -}}
{{- end }}

{{- define "vkubelet-remote.labels" -}}
app.kubernetes.io/name: vkubelet-remote
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "vkubelet-remote.subjects" -}}
- kind: ServiceAccount
  name: {{ include "vkubelet-remote.name" . }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* What is needed in each namespace that pods come to. */}}
{{- define "vkubelet-remote.namespaceRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# What changes of a home pod: debug containers, resources.
- apiGroups: [""]
  resources: [pods/ephemeralcontainers, pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [pods/exec, pods/attach, pods/portforward]
  verbs: [get, create]
# Copies of what pods need, and a ConfigMap a namespace that owns it all.
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, list, watch, create, update, delete]
# What the kubelet and the controllers over there say of pods.
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
{{- if .Values.metrics }}
# For kubectl top and metrics-server at home.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- end }}
{{- end }}

{{- define "vkubelet-remote.policyConditions" -}}
- name: is-this-process
  expression: request.userInfo.username == {{ printf "system:serviceaccount:%s:%s" .Release.Namespace (include "vkubelet-remote.name" .) | quote }}
{{- end }}

{{/* CEL variables and functions that the policies share. */}}
{{- define "vkubelet-remote.policyVariables" -}}
- name: peering
  expression: {{ .Values.peering | toJson | quote }}
- name: home
  expression: {{ .Values.homeClusterUID | toJson | quote }}
- name: namespaces
  expression: {{ .Values.namespaces | toJson | quote }}
{{- end }}

{{/* A CEL expression: whether the labels of an object (of that name in CEL) are of the peering. */}}
{{- define "vkubelet-remote.isOurs" -}}
has({{ . }}.metadata.labels) &&
{{ . }}.metadata.labels[?"vkubelet.io/peering"].orValue("") == variables.peering &&
"vkubelet.io/home-cluster" in {{ . }}.metadata.labels &&
(variables.home == "" || {{ . }}.metadata.labels["vkubelet.io/home-cluster"] == variables.home)
{{- end }}
