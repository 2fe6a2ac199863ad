{{- define "outrider.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "outrider.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "outrider.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "outrider.selector" -}}
app.kubernetes.io/name: {{ include "outrider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "outrider.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "outrider.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "outrider.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "outrider.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "outrider.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end }}

{{- /* The configuration: that of the values, with the addresses and files that the Deployment has. */ -}}
{{- define "outrider.config" -}}
{{- $admin := dict "probes" (printf "0.0.0.0:%v" .Values.probes.port) "listen" "off" -}}
{{- with .Values.admin -}}
{{- if .existingSecret -}}
{{- $name := include "outrider.fullname" $ -}}
{{- $_ := set $admin "listen" (printf "0.0.0.0:%v" .port) -}}
{{- $_ := set $admin "tokens_file" (printf "/etc/outrider/tokens/%s" .tokensKey) -}}
{{- if .operateTokensKey }}{{ $_ := set $admin "operate_tokens_file" (printf "/etc/outrider/tokens/%s" .operateTokensKey) }}{{ end -}}
{{- if .adminTokensKey }}{{ $_ := set $admin "admin_tokens_file" (printf "/etc/outrider/tokens/%s" .adminTokensKey) }}{{ end -}}
{{- $hosts := list $name (printf "%s.%s" $name $.Release.Namespace) (printf "%s.%s.svc" $name $.Release.Namespace) -}}
{{- $_ := set $admin "hosts" (concat $hosts (dig "admin" "hosts" list $.Values.config)) -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) (dict "admin" $admin) | toYaml -}}
{{- end }}

{{- /* Seconds: drain_timeout of the configuration, rounded up, and 15 more for what follows the drain. */ -}}
{{- define "outrider.grace" -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|h|m|s)" (toString (default "30s" .Values.config.drain_timeout)) -1 -}}
{{- $unit := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- $seconds = addf $seconds (mulf (float64 (regexFind "[0-9.]+" .)) (get $unit (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- add (ceil $seconds | int) 15 -}}
{{- end }}
