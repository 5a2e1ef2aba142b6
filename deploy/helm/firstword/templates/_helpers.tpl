{{- define "firstword.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "firstword.selector" -}}
app.kubernetes.io/name: firstword
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "firstword.labels" -}}
{{ include "firstword.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "firstword.keysSecret" -}}
{{- if .Values.apiKeys.existingSecret -}}
{{ .Values.apiKeys.existingSecret }}
{{- else if .Values.apiKeys.value -}}
{{ include "firstword.name" . }}-keys
{{- end -}}
{{- end -}}

{{- define "firstword.storeSecret" -}}
{{- if .Values.store.existingSecret -}}
{{ .Values.store.existingSecret }}
{{- else if .Values.store.url -}}
{{ include "firstword.name" . }}-store
{{- end -}}
{{- end -}}

{{- define "firstword.hasVolume" -}}
{{- if and .Values.persistence.enabled (not (include "firstword.storeSecret" .)) }}true{{ end -}}
{{- end -}}

{{- define "firstword.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "firstword.checkpoint" -}}
/models/{{ .Values.model.name | base }}
{{- end -}}
