// Help texts of the metrics that the agent collects and the backend derives, by the names that they have here. Metrics of applications have none:
// neither the wire protocol nor the metrics engine carries help texts of one organisation. All that do not end in _total are gauges, unless they
// are histograms.

const SYSTEM = {
  system_cpu_load_average_1m: "Average number of runnable and waiting processes over 1 minute",
  system_cpu_load_average_5m: "Average number of runnable and waiting processes over 5 minutes",
  system_cpu_load_average_15m: "Average number of runnable and waiting processes over 15 minutes",
  system_cpu_time_seconds_total: "CPU time by state (user, system, idle, iowait, …)",
  system_disk_io_bytes_total: "Bytes read and written by disk",
  system_disk_io_time_seconds_total: "Time in which the disk was busy",
  system_disk_merged_total: "Reads and writes that were merged into one operation",
  system_disk_operation_time_seconds_total: "Time spent in reads and writes, summed over operations",
  system_disk_operations_total: "Reads and writes by disk",
  system_disk_pending_operations: "Operations in the queue of the disk",
  system_disk_weighted_io_time_seconds_total: "Time in which the disk was busy, multiplied by the length of its queue",
  system_filesystem_inodes_usage: "Inodes by state (used, free)",
  system_filesystem_usage_bytes: "Space of a file system by state (used, free, reserved)",
  system_memory_available_bytes: "Memory that programs can get without swapping",
  system_memory_usage_bytes: "Memory by state (used, free, cached, buffered, …)",
  system_network_connections: "Network connections by protocol and state",
  system_network_dropped_total: "Packets that were dropped by the interface",
  system_network_errors_total: "Errors of the interface",
  system_network_io_bytes_total: "Bytes received and transmitted by interface",
  system_network_packets_total: "Packets received and transmitted by interface",
  system_paging_faults_total: "Page faults by type (major ones read from the disk)",
  system_paging_operations_total: "Pages swapped in and out",
  system_paging_usage_bytes: "Swap space by state (used, free)",
  system_processes_count: "Processes by status",
  system_processes_created_total: "Processes that were started",
};

const KUBERNETES = {
  k8s_container_cpu_limit: "CPU limit of the container, in cores",
  k8s_container_cpu_request: "CPU request of the container, in cores",
  k8s_container_memory_limit_bytes: "Memory limit of the container",
  k8s_container_memory_request_bytes: "Memory request of the container",
  k8s_container_ready: "1 if the container passes its readiness probe, else 0",
  k8s_container_restarts: "How often the container was restarted; falls to 0 with a new pod",
  k8s_container_status_last_terminated_reason: "1 for the reason of the last termination of the container, such as OOMKilled",
  k8s_container_status_reason: "1 for the reason why the container waits or has terminated, such as CrashLoopBackOff",
  k8s_daemonset_desired_scheduled_nodes: "Nodes that should run a pod of the DaemonSet",
  k8s_daemonset_misscheduled_nodes: "Nodes that run a pod of the DaemonSet and should not",
  k8s_daemonset_ready_nodes: "Nodes with a ready pod of the DaemonSet",
  k8s_deployment_available: "Available pods of the Deployment",
  k8s_deployment_desired: "Pods that the Deployment should have",
  k8s_job_active_pods: "Running pods of the Job",
  k8s_job_failed_pods: "Failed pods of the Job",
  k8s_job_successful_pods: "Pods of the Job that succeeded",
  k8s_namespace_phase: "1 if the namespace is active, 0 if it is being deleted",
  k8s_node_condition_disk_pressure: "1 if the node has too little disk space, 0 if not, -1 if unknown",
  k8s_node_condition_memory_pressure: "1 if the node has too little memory, 0 if not, -1 if unknown",
  k8s_node_condition_pid_pressure: "1 if the node has too many processes, 0 if not, -1 if unknown",
  k8s_node_condition_ready: "1 if the node is ready, 0 if not, -1 if unknown",
  k8s_node_cpu_usage: "CPU usage of the node, in cores",
  k8s_node_memory_available_bytes: "Memory that pods can still get on the node",
  k8s_node_memory_working_set_bytes: "Memory in use on the node, without what can be reclaimed",
  k8s_node_network_errors_total: "Network errors of the node",
  k8s_node_network_io_bytes_total: "Bytes received and transmitted by the node",
  k8s_pod_cpu_usage: "CPU usage of the pod, in cores",
  k8s_pod_filesystem_usage_bytes: "Space that the pod uses on its node's file system",
  k8s_pod_memory_working_set_bytes: "Memory of the pod that counts against its limits",
  k8s_pod_phase: "Phase of the pod: 1 pending, 2 running, 3 succeeded, 4 failed, 5 unknown",
  k8s_replicaset_available: "Available pods of the ReplicaSet",
  k8s_replicaset_desired: "Pods that the ReplicaSet should have",
  k8s_statefulset_desired_pods: "Pods that the StatefulSet should have",
  k8s_statefulset_ready_pods: "Ready pods of the StatefulSet",
  k8s_volume_available_bytes: "Free space of the volume",
  k8s_volume_capacity_bytes: "Size of the volume",
  container_cpu_cfs_throttled_seconds_total: "Time in which the container was throttled by its CPU limit",
  container_cpu_usage_seconds_total: "CPU time of the container",
  container_memory_working_set_bytes: "Memory of the container that counts against its limit",
  container_oom_events_total: "Times that the container ran out of memory",
};

const DERIVED = {
  ALERTS: "1 for each pending and firing alert",
  ALERTS_FOR_STATE: "When the alert began, Unix seconds",
  traces_service_graph_request_failed_total: "Failed calls between two services",
  traces_service_graph_request_server_seconds: "Duration of calls between two services",
  traces_service_graph_request_total: "Calls between two services",
  traces_spanmetrics_calls_total: "Spans by service, name, kind and status",
  traces_spanmetrics_latency: "Duration of spans by service, name, kind and status, in seconds",
  up: "1 if the last scrape of the target succeeded, else 0",
};

const HELP: ReadonlyMap<string, string> = new Map(Object.entries({ ...SYSTEM, ...KUBERNETES, ...DERIVED }));

/** Empty for metrics without a text, such as those of applications. */
export function helpOf(metric: string): string {
  return HELP.get(metric) ?? "";
}
