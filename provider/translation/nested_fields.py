"""
Fields further down in a pod's spec, by the name of their type: they go with what holds them.

What is done about one of them stands in the rule of the field that holds it. They are named here
for a test alone: a new one may have to be decided on, such as another way to name a Secret.
"""

from types import MappingProxyType

_NAMES = {
    # Placement.
    "Affinity": "nodeAffinity podAffinity podAntiAffinity",
    "LabelSelector": "matchExpressions matchLabels",
    "LabelSelectorRequirement": "key operator values",
    "NodeAffinity": (
        "preferredDuringSchedulingIgnoredDuringExecution"
        " requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "NodeSelector": "nodeSelectorTerms",
    "NodeSelectorRequirement": "key operator values",
    "NodeSelectorTerm": "matchExpressions matchFields",
    "PodAffinity": (
        "preferredDuringSchedulingIgnoredDuringExecution"
        " requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "PodAntiAffinity": (
        "preferredDuringSchedulingIgnoredDuringExecution"
        " requiredDuringSchedulingIgnoredDuringExecution"
    ),
    "PreferredSchedulingTerm": "preference weight",
    "Toleration": "effect key operator tolerationSeconds value",
    "WeightedPodAffinityTerm": "podAffinityTerm weight",
    # The pod.
    "HostAlias": "hostnames ip",
    "LocalObjectReference": "name",
    "PodDNSConfig": "nameservers options searches",
    "PodDNSConfigOption": "name value",
    "PodOS": "name",
    # Security.
    "AppArmorProfile": "localhostProfile type",
    "Capabilities": "add drop",
    "SELinuxOptions": "level role type user",
    "SeccompProfile": "localhostProfile type",
    "Sysctl": "name value",
    "WindowsSecurityContextOptions": (
        "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName"
    ),
    # Containers.
    "ConfigMapEnvSource": "name optional",
    "ConfigMapKeySelector": "key name optional",
    "ContainerPort": "containerPort hostIP hostPort name protocol",
    "ContainerResizePolicy": "resourceName restartPolicy",
    "ContainerRestartRule": "action exitCodes",
    "ContainerRestartRuleOnExitCodes": "operator values",
    "EnvFromSource": "configMapRef prefix secretRef",
    "EnvVar": "name value valueFrom",
    "ExecAction": "command",
    "FileKeySelector": "key optional path volumeName",
    "GRPCAction": "mode port service",
    "HTTPGetAction": "host httpHeaders path port protocol scheme",
    "HTTPHeader": "name value",
    "Lifecycle": "postStart preStop stopSignal",
    "LifecycleHandler": "exec httpGet sleep tcpSocket",
    "ObjectFieldSelector": "apiVersion fieldPath",
    "Probe": (
        "exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold"
        " tcpSocket terminationGracePeriodSeconds timeoutSeconds"
    ),
    "ResourceClaim": "name request",
    "ResourceFieldSelector": "containerName divisor resource",
    "ResourceRequirements": "claims limits requests",
    "SecretEnvSource": "name optional",
    "SecretKeySelector": "key name optional",
    "SleepAction": "seconds",
    "TCPSocketAction": "host port",
    "VolumeDevice": "devicePath name",
    "VolumeMount": (
        "bindMountOptions mountPath mountPropagation name readOnly recursiveReadOnly subPath"
        " subPathExpr"
    ),
    # Volumes.
    "AWSElasticBlockStoreVolumeSource": "fsType partition readOnly volumeID",
    "AzureDiskVolumeSource": "cachingMode diskName diskURI fsType kind readOnly",
    "AzureFileVolumeSource": "readOnly secretName shareName",
    "CSIVolumeSource": "driver fsType nodePublishSecretRef readOnly volumeAttributes",
    "CephFSVolumeSource": "monitors path readOnly secretFile secretRef user",
    "CinderVolumeSource": "fsType readOnly secretRef volumeID",
    "ConfigMapProjection": "items name optional",
    "ConfigMapVolumeSource": "defaultMode defaultUser items name optional",
    "DownwardAPIProjection": "items",
    "DownwardAPIVolumeFile": "fieldRef mode path resourceFieldRef user",
    "DownwardAPIVolumeSource": "defaultMode defaultUser items",
    "EmptyDirVolumeSource": "medium mode sizeLimit",
    "FCVolumeSource": "fsType lun readOnly targetWWNs wwids",
    "FlexVolumeSource": "driver fsType options readOnly secretRef",
    "FlockerVolumeSource": "datasetName datasetUUID",
    "GCEPersistentDiskVolumeSource": "fsType partition pdName readOnly",
    "GitRepoVolumeSource": "directory repository revision",
    "GlusterfsVolumeSource": "endpoints path readOnly",
    "ISCSIVolumeSource": (
        "chapAuthDiscovery chapAuthSession fsType initiatorName iqn iscsiInterface lun portals"
        " readOnly secretRef targetPortal"
    ),
    "ImageVolumeSource": "pullPolicy reference",
    "KeyToPath": "key mode path user",
    "NFSVolumeSource": "path readOnly server",
    "PhotonPersistentDiskVolumeSource": "fsType pdID",
    "PortworxVolumeSource": "fsType readOnly volumeID",
    "ProjectedVolumeSource": "defaultMode defaultUser sources",
    "QuobyteVolumeSource": "group readOnly registry tenant user volume",
    "RBDVolumeSource": "fsType image keyring monitors pool readOnly secretRef user",
    "ScaleIOVolumeSource": (
        "fsType gateway protectionDomain readOnly secretRef sslEnabled storageMode storagePool"
        " system volumeName"
    ),
    "SecretProjection": "items name optional",
    "SecretVolumeSource": "defaultMode defaultUser items optional secretName",
    "ServiceAccountTokenProjection": "audience expirationSeconds path user",
    "StorageOSVolumeSource": "fsType readOnly secretRef volumeName volumeNamespace",
    "VsphereVirtualDiskVolumeSource": "fsType storagePolicyID storagePolicyName volumePath",
}

NESTED_FIELDS = MappingProxyType({kind: tuple(names.split()) for kind, names in _NAMES.items()})
"""Names of fields by the name that Kubernetes' API has for what holds them."""
