// Generated from docs/openapi.json by `npm run reference` (hack/openapi.ts). Do not edit. Invariant: these are the only types of requests and
// responses in the CLI and the console.

/** JSON bodies of successful responses. */
export interface ApiResponses {
  readonly "GET /alerting/alertmanager/api/v2/alerts": readonly {
    readonly fingerprint: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly startsAt: string;
    readonly updatedAt: string;
    readonly endsAt: string;
    readonly generatorURL: string;
    readonly receivers: readonly {
      readonly name: string;
    }[];
    readonly status: {
      readonly state: "active" | "suppressed";
      readonly silencedBy: readonly string[];
      readonly inhibitedBy: readonly string[];
      readonly mutedBy: readonly string[];
    };
  }[];
  readonly "GET /alerting/alertmanager/api/v2/alerts/groups": readonly {
    readonly labels: Readonly<Record<string, string>>;
    readonly receiver: {
      readonly name: string;
    };
    readonly alerts: readonly {
      readonly fingerprint: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly startsAt: string;
      readonly updatedAt: string;
      readonly endsAt: string;
      readonly generatorURL: string;
      readonly receivers: readonly {
        readonly name: string;
      }[];
      readonly status: {
        readonly state: "active" | "suppressed";
        readonly silencedBy: readonly string[];
        readonly inhibitedBy: readonly string[];
        readonly mutedBy: readonly string[];
      };
    }[];
  }[];
  readonly "GET /alerting/alertmanager/api/v2/receivers": readonly {
    readonly name: string;
  }[];
  readonly "DELETE /alerting/alertmanager/api/v2/silence/{id}": Readonly<Record<string, unknown>>;
  readonly "GET /alerting/alertmanager/api/v2/silence/{id}": {
    readonly id: string;
    readonly status: {
      readonly state: "active" | "pending" | "expired";
    };
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex: boolean;
      readonly isEqual: boolean;
    }[];
    readonly startsAt: string;
    readonly endsAt: string;
    readonly createdBy: string;
    readonly comment: string;
    readonly updatedAt: string;
  };
  readonly "GET /alerting/alertmanager/api/v2/silences": readonly {
    readonly id: string;
    readonly status: {
      readonly state: "active" | "pending" | "expired";
    };
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex: boolean;
      readonly isEqual: boolean;
    }[];
    readonly startsAt: string;
    readonly endsAt: string;
    readonly createdBy: string;
    readonly comment: string;
    readonly updatedAt: string;
  }[];
  readonly "POST /alerting/alertmanager/api/v2/silences": {
    readonly silenceID: string;
  };
  readonly "GET /alerting/alertmanager/api/v2/status": {
    readonly cluster: Readonly<Record<string, unknown>>;
    readonly versionInfo: Readonly<Record<string, string>>;
    readonly config: {
      readonly original: string;
    };
    readonly uptime: string;
  };
  readonly "GET /alerting/channels": readonly {
    readonly id: string;
    readonly name: string;
    readonly kind: "webhook" | "slack" | "pagerduty" | "email";
    readonly settings: Readonly<Record<string, unknown>>;
    readonly enabled: boolean;
    readonly heartbeat: string | null;
    readonly last_heartbeat_at: string | null;
    readonly secret_rotated_at: string | null;
    readonly created_at: string;
    readonly signing_secret?: string;
  }[];
  readonly "POST /alerting/channels": {
    readonly id: string;
    readonly name: string;
    readonly kind: "webhook" | "slack" | "pagerduty" | "email";
    readonly settings: Readonly<Record<string, unknown>>;
    readonly enabled: boolean;
    readonly heartbeat: string | null;
    readonly last_heartbeat_at: string | null;
    readonly secret_rotated_at: string | null;
    readonly created_at: string;
    readonly signing_secret?: string;
  };
  readonly "PUT /alerting/channels/{id}": {
    readonly id: string;
    readonly name: string;
    readonly kind: "webhook" | "slack" | "pagerduty" | "email";
    readonly settings: Readonly<Record<string, unknown>>;
    readonly enabled: boolean;
    readonly heartbeat: string | null;
    readonly last_heartbeat_at: string | null;
    readonly secret_rotated_at: string | null;
    readonly created_at: string;
    readonly signing_secret?: string;
  };
  readonly "POST /alerting/channels/{id}/rotate": {
    readonly signing_secret: string;
    readonly previous_until: string;
  };
  readonly "POST /alerting/channels/{id}/test": {
    readonly delivered: boolean;
    readonly status: number | null;
    readonly error: string | null;
  };
  readonly "GET /alerting/deliveries": readonly {
    readonly id: string;
    readonly channel_id: string;
    readonly rule_ids: readonly string[];
    readonly status: "pending" | "delivered" | "failed";
    readonly attempts: number;
    readonly http_status: number | null;
    readonly error: string | null;
    readonly created_at: string;
    readonly delivered_at: string | null;
  }[];
  readonly "GET /alerting/prometheus/api/v1/alerts": {
    readonly status: "success";
    readonly data: {
      readonly alerts: readonly {
        readonly labels: Readonly<Record<string, string>>;
        readonly annotations: Readonly<Record<string, string>>;
        readonly state: "pending" | "firing";
        readonly activeAt: string;
        readonly value: string;
      }[];
    };
    readonly warnings?: readonly string[];
  };
  readonly "GET /alerting/prometheus/api/v1/rules": {
    readonly status: "success";
    readonly data: {
      readonly groups: readonly {
        readonly name: "rules";
        readonly file: "atherops";
        readonly interval: number;
        readonly rules: readonly {
          readonly state: "firing" | "pending" | "inactive";
          readonly name: string;
          readonly query: string;
          readonly duration: number;
          readonly labels: Readonly<Record<string, string>>;
          readonly annotations: Readonly<Record<string, string>>;
          readonly alerts: readonly {
            readonly labels: Readonly<Record<string, string>>;
            readonly annotations: Readonly<Record<string, string>>;
            readonly state: "pending" | "firing";
            readonly activeAt: string;
            readonly value: string;
          }[];
          readonly health: "ok" | "err" | "unknown";
          readonly lastError?: string;
          readonly evaluationTime: number;
          readonly lastEvaluation: string;
          readonly type: "alerting";
        }[];
        readonly evaluationTime: number;
        readonly lastEvaluation: string;
      }[];
    };
    readonly warnings?: readonly string[];
  };
  readonly "GET /alerting/routes": readonly {
    readonly id: string;
    readonly position: number;
    readonly matchers: readonly {
      readonly label: string;
      readonly op: "=" | "!=" | "=~" | "!~";
      readonly value: string;
    }[];
    readonly channel_ids: readonly string[];
    readonly group_by: readonly string[];
    readonly group_wait: string;
    readonly group_interval: string;
    readonly repeat_interval: string;
    readonly continue: boolean;
    readonly is_default: boolean;
    readonly created_at: string;
  }[];
  readonly "POST /alerting/routes": {
    readonly id: string;
    readonly position: number;
    readonly matchers: readonly {
      readonly label: string;
      readonly op: "=" | "!=" | "=~" | "!~";
      readonly value: string;
    }[];
    readonly channel_ids: readonly string[];
    readonly group_by: readonly string[];
    readonly group_wait: string;
    readonly group_interval: string;
    readonly repeat_interval: string;
    readonly continue: boolean;
    readonly is_default: boolean;
    readonly created_at: string;
  };
  readonly "PUT /alerting/routes/{id}": {
    readonly id: string;
    readonly position: number;
    readonly matchers: readonly {
      readonly label: string;
      readonly op: "=" | "!=" | "=~" | "!~";
      readonly value: string;
    }[];
    readonly channel_ids: readonly string[];
    readonly group_by: readonly string[];
    readonly group_wait: string;
    readonly group_interval: string;
    readonly repeat_interval: string;
    readonly continue: boolean;
    readonly is_default: boolean;
    readonly created_at: string;
  };
  readonly "GET /alerting/rules": readonly {
    readonly id: string;
    readonly name: string;
    readonly severity: "critical" | "warning" | "info";
    readonly expr: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for: string;
    readonly enabled: boolean;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly created_at: string;
  }[];
  readonly "POST /alerting/rules": {
    readonly id: string;
    readonly name: string;
    readonly severity: "critical" | "warning" | "info";
    readonly expr: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for: string;
    readonly enabled: boolean;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly created_at: string;
  };
  readonly "POST /alerting/rules/validate": {
    readonly valid: boolean;
    readonly matching_series?: number;
    readonly message?: string;
  };
  readonly "PUT /alerting/rules/{id}": {
    readonly id: string;
    readonly name: string;
    readonly severity: "critical" | "warning" | "info";
    readonly expr: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for: string;
    readonly enabled: boolean;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly created_at: string;
  };
  readonly "GET /alerting/rules/{id}/history": readonly {
    readonly state: "pending" | "firing";
    readonly start: string;
    readonly end: string;
    readonly labels: Readonly<Record<string, string>>;
  }[];
  readonly "GET /alerting/rules/{id}/status": {
    readonly state: "firing" | "pending" | "inactive";
    readonly active_alerts: number;
    readonly last_eval?: string;
    readonly error?: string;
  };
  readonly "GET /alerting/silences": readonly {
    readonly id: string;
    readonly status: {
      readonly state: "active" | "pending" | "expired";
    };
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex: boolean;
      readonly isEqual: boolean;
    }[];
    readonly startsAt: string;
    readonly endsAt: string;
    readonly createdBy: string;
    readonly comment: string;
    readonly updatedAt: string;
  }[];
  readonly "POST /alerting/silences": {
    readonly id: string;
    readonly status: {
      readonly state: "active" | "pending" | "expired";
    };
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex: boolean;
      readonly isEqual: boolean;
    }[];
    readonly startsAt: string;
    readonly endsAt: string;
    readonly createdBy: string;
    readonly comment: string;
    readonly updatedAt: string;
  };
  readonly "GET /api/accounts": readonly {
    readonly user_id: string;
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly created_at: string;
    readonly org_id: string;
  }[];
  readonly "GET /api/audit": readonly {
    readonly id: string;
    readonly at: string;
    readonly action: string;
    readonly org_id: string | null;
    readonly actor: string | null;
    readonly actor_id: string | null;
    readonly address: string | null;
    readonly request_id: string;
    readonly subject: Readonly<Record<string, unknown>>;
  }[];
  readonly "POST /api/auth/login": {
    readonly token: string;
  };
  readonly "GET /api/auth/oidc/callback": {
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly org: {
      readonly id: string;
      readonly name: string;
    };
    readonly expires_at: string;
  };
  readonly "POST /api/auth/oidc/token": {
    readonly token: string;
    readonly email: string;
  };
  readonly "GET /api/auth/session": {
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly org: {
      readonly id: string;
      readonly name: string;
    };
    readonly expires_at: string;
  };
  readonly "GET /api/clusters": readonly {
    readonly cluster_id: string;
    readonly name: string;
    readonly online: boolean;
    readonly last_heartbeat: string | null;
    readonly key_created_at: string | null;
    readonly nodes: readonly {
      readonly name: string;
      readonly online: boolean;
      readonly agent_version: string | null;
      readonly last_heartbeat: string | null;
      readonly collector: {
        readonly state?: string;
        readonly restarts?: number;
        readonly last_error?: string;
      } | null;
    }[];
  }[];
  readonly "POST /api/clusters/register": {
    readonly cluster_id: string;
    readonly api_key: string;
    readonly key_created_at: string;
  };
  readonly "POST /api/clusters/rotate-key": {
    readonly api_key: string;
    readonly key_created_at: string;
    readonly previous_key_expires_at: string;
  };
  readonly "GET /api/dashboards": readonly {
    readonly name: string;
    readonly id: string;
    readonly created_by: string;
    readonly created_at: string;
    readonly updated_by: string;
    readonly updated_at: string;
  }[];
  readonly "POST /api/dashboards": {
    readonly id: string;
    readonly name: string;
  };
  readonly "GET /api/dashboards/{id}": {
    readonly name: string;
    readonly description: string;
    readonly variables: readonly {
      readonly name: string;
      readonly query?: string;
      readonly label?: string;
      readonly values?: readonly string[];
    }[];
    readonly panels: readonly {
      readonly title: string;
      readonly kind: "timeseries" | "stat" | "table" | "list" | "text";
      readonly source: "metrics" | "logs" | "traces";
      readonly unit?: "short" | "bytes" | "Bps" | "percentunit" | "percent" | "s" | "ms" | "reqps";
      readonly width: number;
      readonly queries: readonly {
        readonly query: string;
        readonly legend?: string;
      }[];
      readonly text?: string;
    }[];
    readonly id: string;
    readonly created_by: string;
    readonly created_at: string;
    readonly updated_by: string;
    readonly updated_at: string;
  };
  readonly "PUT /api/dashboards/{id}": {
    readonly id: string;
    readonly name: string;
  };
  readonly "GET /api/ingest-tokens": readonly {
    readonly id: string;
    readonly name: string;
    readonly signals: readonly ("metrics" | "logs" | "traces")[];
    readonly host: string | null;
    readonly cluster: string | null;
    readonly networks: readonly string[];
    readonly bytes_per_second: number;
    readonly records_per_second: number;
    readonly created_by: string;
    readonly created_at: string;
    readonly expires_at: string | null;
    readonly last_used_at: string | null;
    readonly previous_valid_until: string | null;
    readonly previous_last_used_at: string | null;
  }[];
  readonly "POST /api/ingest-tokens": {
    readonly id: string;
    readonly name: string;
    readonly token: string;
    readonly expires_at: string | null;
  };
  readonly "POST /api/ingest-tokens/{id}/rotate": {
    readonly id: string;
    readonly name: string;
    readonly token: string;
    readonly expires_at: string | null;
    readonly previous_valid_until: string;
  };
  readonly "GET /api/install-tokens": readonly {
    readonly id: string;
    readonly created_at: string;
    readonly expires_at: string;
    readonly used_at: string | null;
  }[];
  readonly "POST /api/install-tokens": {
    readonly id: string;
    readonly token: string;
    readonly expires_at: string;
  };
  readonly "GET /api/keys": readonly {
    readonly key_id: string;
    readonly name: string;
    readonly created_at: string;
    readonly first_used_at: string | null;
  }[];
  readonly "POST /api/keys": {
    readonly key_id: string;
    readonly name: string;
    readonly created_at: string;
    readonly api_key: string;
  };
  readonly "GET /api/limits": {
    readonly bytes_per_second: number;
    readonly records_per_second: number;
    readonly active_series: number;
  };
  readonly "GET /api/orgs": readonly {
    readonly org_id: string;
    readonly name: string;
    readonly created_at?: string;
  }[];
  readonly "POST /api/orgs": {
    readonly org_id: string;
    readonly name: string;
    readonly created_at?: string;
  };
  readonly "POST /api/orgs/{id}/admins": {
    readonly user_id: string;
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly created_at: string;
  };
  readonly "GET /api/orgs/{id}/limits": {
    readonly bytes_per_second: number;
    readonly records_per_second: number;
    readonly active_series: number;
  };
  readonly "PUT /api/orgs/{id}/limits": {
    readonly bytes_per_second: number;
    readonly records_per_second: number;
    readonly active_series: number;
  };
  readonly "GET /api/read-tokens": readonly {
    readonly id: string;
    readonly name: string;
    readonly created_by: string;
    readonly created_at: string;
    readonly expires_at: string;
  }[];
  readonly "POST /api/read-tokens": {
    readonly id: string;
    readonly name: string;
    readonly token: string;
    readonly expires_at: string;
  };
  readonly "GET /api/usage": readonly {
    readonly day: string;
    readonly signal: "metrics" | "logs" | "traces";
    readonly bytes: number;
    readonly records: number;
    readonly active_series: number | null;
  }[];
  readonly "GET /api/users": readonly {
    readonly user_id: string;
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly created_at: string;
  }[];
  readonly "POST /api/users": {
    readonly user_id: string;
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly created_at: string;
  };
  readonly "PUT /api/users/{id}/role": {
    readonly user_id: string;
    readonly email: string;
    readonly role: "viewer" | "admin" | "operator";
    readonly created_at: string;
  };
  readonly "GET /api/v1/agents": readonly {
    readonly agent_id: string;
    readonly hostname: string;
    readonly online: boolean;
    readonly last_heartbeat: string | null;
    readonly key_created_at: string | null;
    readonly agent_version: string | null;
    readonly collector: {
      readonly state?: string;
      readonly restarts?: number;
      readonly last_error?: string;
    } | null;
    readonly config: {
      readonly version?: string;
      readonly in_force?: string | null;
      readonly error?: string | null;
      readonly config?: {
        readonly intervals?: {
          readonly metrics?: string;
          readonly heartbeat?: string;
        };
        readonly log_paths?: readonly string[];
        readonly signals?: readonly ("metrics" | "logs" | "traces")[];
        readonly log_level?: "debug" | "info" | "warn" | "error";
      };
    };
  }[];
  readonly "POST /api/v1/agents/register": {
    readonly agent_id: string;
    readonly api_key: string;
    readonly key_created_at: string;
  };
  readonly "GET /api/v1/agents/{id}/config": {
    readonly version: string;
    readonly config: {
      readonly intervals?: {
        readonly metrics?: string;
        readonly heartbeat?: string;
      };
      readonly log_paths?: readonly string[];
      readonly signals?: readonly ("metrics" | "logs" | "traces")[];
      readonly log_level?: "debug" | "info" | "warn" | "error";
    };
  };
  readonly "PUT /api/v1/agents/{id}/config": {
    readonly version: string;
    readonly config: {
      readonly intervals?: {
        readonly metrics?: string;
        readonly heartbeat?: string;
      };
      readonly log_paths?: readonly string[];
      readonly signals?: readonly ("metrics" | "logs" | "traces")[];
      readonly log_level?: "debug" | "info" | "warn" | "error";
    };
  };
  readonly "GET /api/views": readonly {
    readonly name: string;
    readonly address: string;
    readonly id: string;
    readonly created_by: string;
    readonly created_at: string;
    readonly updated_by: string;
    readonly updated_at: string;
  }[];
  readonly "POST /api/views": {
    readonly id: string;
    readonly name: string;
  };
  readonly "GET /api/views/{id}": {
    readonly name: string;
    readonly address: string;
    readonly id: string;
    readonly created_by: string;
    readonly created_at: string;
    readonly updated_by: string;
    readonly updated_at: string;
  };
  readonly "PUT /api/views/{id}": {
    readonly id: string;
    readonly name: string;
  };
  readonly "GET /openapi.json": Readonly<Record<string, unknown>>;
  readonly "GET /query/jaeger/api/dependencies": {
    readonly data: readonly {
      readonly parent: string;
      readonly child: string;
      readonly callCount: number;
    }[];
  };
  readonly "GET /query/jaeger/api/services": {
    readonly data: readonly string[];
  };
  readonly "GET /query/jaeger/api/services/{service}/operations": {
    readonly data: readonly string[];
  };
  readonly "GET /query/jaeger/api/traces": {
    readonly data: readonly {
      readonly traceID: string;
      readonly spans: readonly Readonly<Record<string, unknown>>[];
      readonly processes: Readonly<Record<string, unknown>>;
    }[];
  };
  readonly "GET /query/jaeger/api/traces/{trace_id}": {
    readonly data: readonly {
      readonly traceID: string;
      readonly spans: readonly Readonly<Record<string, unknown>>[];
      readonly processes: Readonly<Record<string, unknown>>;
    }[];
  };
  readonly "GET /query/logs": readonly {
    readonly timestamp: string;
    readonly level: string;
    readonly source: string;
    readonly message: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly host_id: string;
    readonly node: string;
    readonly trace_id: string;
    readonly span_id: string;
    readonly severity_number: number;
    readonly scope: string;
  }[];
  readonly "GET /query/logs/fields": readonly {
    readonly name: string;
    readonly values: readonly {
      readonly value: string;
      readonly count: number;
    }[];
  }[];
  readonly "GET /query/logs/histogram": readonly {
    readonly start: string;
    readonly end: string;
    readonly counts: Readonly<Record<string, number>>;
  }[];
  readonly "GET /query/logs/patterns": {
    readonly records: number;
    readonly sampled_one_of: number;
    readonly patterns: readonly {
      readonly pattern: string;
      readonly count: number;
      readonly example: string;
    }[];
  };
  readonly "GET /query/loki/loki/api/v1/detected_field/{name}/values": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/detected_fields": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/detected_labels": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/index/stats": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/index/volume": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/label/{name}/values": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/labels": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/patterns": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/query": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/query_range": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/series": Readonly<Record<string, unknown>>;
  readonly "GET /query/loki/loki/api/v1/tail": {
    readonly streams?: readonly Readonly<Record<string, unknown>>[];
    readonly dropped_entries?: readonly unknown[] | null;
  };
  readonly "GET /query/prometheus/": {
    readonly status: "success";
    readonly data?: {};
  };
  readonly "GET /query/prometheus/api/v1/alerts": {
    readonly status: "success";
    readonly data: {
      readonly alerts: readonly {
        readonly labels: Readonly<Record<string, string>>;
        readonly annotations: Readonly<Record<string, string>>;
        readonly state: "pending" | "firing";
        readonly activeAt: string;
        readonly value: string;
      }[];
    };
    readonly warnings?: readonly string[];
  };
  readonly "GET /query/prometheus/api/v1/label/{name}/values": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "GET /query/prometheus/api/v1/labels": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "POST /query/prometheus/api/v1/labels": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "GET /query/prometheus/api/v1/metadata": {
    readonly status: "success";
    readonly data?: Readonly<Record<string, readonly {
      readonly type: "counter" | "histogram" | "summary" | "unknown";
      readonly help: "";
      readonly unit: string;
    }[]>>;
    readonly warnings?: readonly string[];
  };
  readonly "GET /query/prometheus/api/v1/query": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "POST /query/prometheus/api/v1/query": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "GET /query/prometheus/api/v1/query_exemplars": {
    readonly status: "success";
    readonly data?: [];
  };
  readonly "POST /query/prometheus/api/v1/query_exemplars": {
    readonly status: "success";
    readonly data?: [];
  };
  readonly "GET /query/prometheus/api/v1/query_range": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "POST /query/prometheus/api/v1/query_range": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "GET /query/prometheus/api/v1/rules": {
    readonly status: "success";
    readonly data: {
      readonly groups: readonly {
        readonly name: "rules";
        readonly file: "atherops";
        readonly interval: number;
        readonly rules: readonly {
          readonly state: "firing" | "pending" | "inactive";
          readonly name: string;
          readonly query: string;
          readonly duration: number;
          readonly labels: Readonly<Record<string, string>>;
          readonly annotations: Readonly<Record<string, string>>;
          readonly alerts: readonly {
            readonly labels: Readonly<Record<string, string>>;
            readonly annotations: Readonly<Record<string, string>>;
            readonly state: "pending" | "firing";
            readonly activeAt: string;
            readonly value: string;
          }[];
          readonly health: "ok" | "err" | "unknown";
          readonly lastError?: string;
          readonly evaluationTime: number;
          readonly lastEvaluation: string;
          readonly type: "alerting";
        }[];
        readonly evaluationTime: number;
        readonly lastEvaluation: string;
      }[];
    };
    readonly warnings?: readonly string[];
  };
  readonly "GET /query/prometheus/api/v1/series": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "POST /query/prometheus/api/v1/series": {
    readonly status: "success";
    readonly data?: unknown;
  };
  readonly "GET /query/prometheus/api/v1/status/buildinfo": {
    readonly status: "success";
    readonly data?: {"version":"2.24.0"};
  };
  readonly "GET /query/prometheus/api/v1/status/config": {
    readonly status: "success";
    readonly data?: {"yaml":""};
  };
  readonly "GET /query/prometheus/api/v1/status/flags": {
    readonly status: "success";
    readonly data?: {};
  };
  readonly "GET /query/prometheus/api/v1/status/runtimeinfo": {
    readonly status: "success";
    readonly data?: {"reloadConfigSuccess":true,"corruptionCount":0};
  };
  readonly "GET /query/prometheus/api/v1/targets": {
    readonly status: "success";
    readonly data?: {"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":{}};
  };
  readonly "GET /query/prometheus/api/v1/targets/metadata": {
    readonly status: "success";
    readonly data?: [];
  };
  readonly "GET /query/services": readonly {
    readonly service: string;
    readonly operations: readonly {
      readonly operation: string;
      readonly kinds: readonly string[];
    }[];
    readonly calls: number;
    readonly errors: number;
    readonly rate: number;
    readonly error_ratio: number;
    readonly p50_ms: number | null;
    readonly p95_ms: number | null;
    readonly p99_ms: number | null;
    readonly series: {
      readonly calls: readonly number[];
      readonly errors: readonly number[];
      readonly p95_ms: readonly (number | null)[];
    };
  }[];
  readonly "GET /query/services/graph": {
    readonly nodes: readonly {
      readonly name: string;
      readonly kind: "service" | "database" | "queue" | "external";
    }[];
    readonly edges: readonly {
      readonly client: string;
      readonly server: string;
      readonly connection: "" | "messaging" | "database" | "queue" | "external";
      readonly calls: number;
      readonly failed: number;
      readonly rate: number;
      readonly error_ratio: number;
      readonly p50_ms: number;
      readonly p95_ms: number;
      readonly p99_ms: number;
    }[];
  };
  readonly "GET /query/services/{service}/operations": readonly {
    readonly operation: string;
    readonly kind: string;
    readonly calls: number;
    readonly errors: number;
    readonly rate: number;
    readonly error_ratio: number;
    readonly p50_ms: number | null;
    readonly p95_ms: number | null;
    readonly p99_ms: number | null;
  }[];
  readonly "GET /query/services/{service}/timeseries": readonly {
    readonly start: string;
    readonly end: string;
    readonly calls: number;
    readonly errors: number;
    readonly rate: number;
    readonly error_ratio: number;
    readonly p50_ms: number | null;
    readonly p95_ms: number | null;
    readonly p99_ms: number | null;
  }[];
  readonly "GET /query/traces": readonly {
    readonly Timestamp: string;
    readonly TraceID: string;
    readonly SpanID: string;
    readonly ParentSpanID: string;
    readonly Service: string;
    readonly Operation: string;
    readonly DurationMs: number;
    readonly StatusCode: "UNSET" | "OK" | "ERROR";
    readonly Error: boolean;
    readonly Attributes: Readonly<Record<string, string>>;
  }[];
  readonly "GET /query/traces/differences": readonly {
    readonly name: string;
    readonly value: string;
    readonly compared: number;
    readonly compared_share: number;
    readonly others: number;
    readonly others_share: number;
    readonly difference: number;
  }[];
  readonly "GET /query/traces/facets": readonly {
    readonly name: string;
    readonly values: readonly {
      readonly value: string;
      readonly count: number;
    }[];
  }[];
  readonly "GET /query/traces/heatmap": readonly {
    readonly start: string;
    readonly end: string;
    readonly spans: number;
    readonly errors: number;
    readonly buckets: readonly {
      readonly max_ms: number;
      readonly count: number;
    }[];
  }[];
  readonly "GET /query/traces/search": readonly {
    readonly trace_id: string;
    readonly root_service: string;
    readonly root_operation: string;
    readonly start: string;
    readonly duration_ms: number;
    readonly spans: number;
    readonly errors: number;
    readonly services: readonly string[];
  }[];
  readonly "GET /query/traces/{trace_id}": readonly {
    readonly Timestamp: string;
    readonly TraceID: string;
    readonly SpanID: string;
    readonly ParentSpanID: string;
    readonly Service: string;
    readonly Operation: string;
    readonly DurationMs: number;
    readonly StatusCode: "UNSET" | "OK" | "ERROR";
    readonly Error: boolean;
    readonly Attributes: Readonly<Record<string, string>>;
    readonly Kind: string;
    readonly StatusMessage: string;
    readonly Events: readonly {
      readonly Timestamp: string;
      readonly Name: string;
      readonly Attributes: Readonly<Record<string, string>>;
    }[];
    readonly Links: readonly {
      readonly TraceID: string;
      readonly SpanID: string;
      readonly TraceState: string;
      readonly Attributes: Readonly<Record<string, string>>;
    }[];
    readonly Scope: {
      readonly Name?: string;
      readonly Version?: string;
    };
  }[];
  readonly "POST /v1/logs": Readonly<Record<string, unknown>>;
  readonly "POST /v1/metrics": Readonly<Record<string, unknown>>;
  readonly "POST /v1/traces": Readonly<Record<string, unknown>>;
}

/** JSON bodies of requests. Fields with a default are optional. */
export interface ApiBodies {
  readonly "POST /alerting/alertmanager/api/v2/silences": {
    readonly id?: string | null;
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex?: boolean;
      readonly isEqual?: boolean;
    }[];
    readonly startsAt?: string;
    readonly endsAt: string;
    readonly createdBy?: string;
    readonly comment: string;
  };
  readonly "POST /alerting/channels": {
    readonly name: string;
    readonly kind: "webhook" | "slack" | "pagerduty" | "email";
    readonly settings: {
      readonly url?: string;
      readonly routing_key?: string;
      readonly region?: "us" | "eu";
      readonly title?: string;
      readonly text?: string;
      readonly to?: readonly string[];
    };
    readonly enabled?: boolean;
    readonly heartbeat?: string | null;
  };
  readonly "PUT /alerting/channels/{id}": {
    readonly name: string;
    readonly kind: "webhook" | "slack" | "pagerduty" | "email";
    readonly settings: {
      readonly url?: string;
      readonly routing_key?: string;
      readonly region?: "us" | "eu";
      readonly title?: string;
      readonly text?: string;
      readonly to?: readonly string[];
    };
    readonly enabled?: boolean;
    readonly heartbeat?: string | null;
  };
  readonly "POST /alerting/routes": {
    readonly matchers: readonly {
      readonly label: string;
      readonly op: "=" | "!=" | "=~" | "!~";
      readonly value: string;
    }[];
    readonly channel_ids?: readonly string[];
    readonly group_by?: readonly string[];
    readonly group_wait?: string;
    readonly group_interval?: string;
    readonly repeat_interval?: string;
    readonly continue?: boolean;
    readonly position?: number;
  };
  readonly "PUT /alerting/routes/{id}": {
    readonly matchers: readonly {
      readonly label: string;
      readonly op: "=" | "!=" | "=~" | "!~";
      readonly value: string;
    }[];
    readonly channel_ids?: readonly string[];
    readonly group_by?: readonly string[];
    readonly group_wait?: string;
    readonly group_interval?: string;
    readonly repeat_interval?: string;
    readonly continue?: boolean;
    readonly position?: number;
  };
  readonly "POST /alerting/rules": {
    readonly name: string;
    readonly severity: "critical" | "warning" | "info";
    readonly expr?: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for?: string;
    readonly enabled?: boolean;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly "POST /alerting/rules/validate": {
    readonly name?: string;
    readonly severity?: "critical" | "warning" | "info";
    readonly expr?: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for?: string;
    readonly enabled?: boolean;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly "PUT /alerting/rules/{id}": {
    readonly name: string;
    readonly severity: "critical" | "warning" | "info";
    readonly expr?: string;
    readonly logs?: {
      readonly filter?: {
        readonly query?: string;
        readonly source?: string;
        readonly level?: string;
        readonly words?: string | readonly string[];
        readonly q?: string | readonly string[];
        readonly not_q?: string | readonly string[];
        readonly regex?: string | readonly string[];
        readonly not_regex?: string | readonly string[];
        readonly host_id?: string;
        readonly node?: string;
        readonly trace_id?: string;
      };
      readonly window: string;
      readonly by?: readonly string[];
      readonly operator: ">" | ">=" | "<" | "<=" | "==" | "!=";
      readonly threshold: number;
    };
    readonly for?: string;
    readonly enabled?: boolean;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly "POST /alerting/silences": {
    readonly id?: string | null;
    readonly matchers: readonly {
      readonly name: string;
      readonly value: string;
      readonly isRegex?: boolean;
      readonly isEqual?: boolean;
    }[];
    readonly startsAt?: string;
    readonly endsAt: string;
    readonly createdBy?: string;
    readonly comment: string;
  };
  readonly "POST /api/auth/login": {
    readonly email: string;
    readonly password: string;
  };
  readonly "POST /api/auth/oidc/token": {
    readonly code: string;
    readonly verifier: string;
  };
  readonly "POST /api/auth/session": {
    readonly email: string;
    readonly password: string;
  };
  readonly "POST /api/clusters/register": {
    readonly cluster_name: string;
    readonly cluster_uid: string;
    readonly agent_version: string;
    readonly installation?: string;
  };
  readonly "POST /api/dashboards": {
    readonly name: string;
    readonly description: string;
    readonly variables: readonly {
      readonly name: string;
      readonly query?: string;
      readonly label?: string;
      readonly values?: readonly string[];
    }[];
    readonly panels: readonly {
      readonly title: string;
      readonly kind: "timeseries" | "stat" | "table" | "list" | "text";
      readonly source: "metrics" | "logs" | "traces";
      readonly unit?: "short" | "bytes" | "Bps" | "percentunit" | "percent" | "s" | "ms" | "reqps";
      readonly width: number;
      readonly queries: readonly {
        readonly query: string;
        readonly legend?: string;
      }[];
      readonly text?: string;
    }[];
  };
  readonly "PUT /api/dashboards/{id}": {
    readonly name: string;
    readonly description: string;
    readonly variables: readonly {
      readonly name: string;
      readonly query?: string;
      readonly label?: string;
      readonly values?: readonly string[];
    }[];
    readonly panels: readonly {
      readonly title: string;
      readonly kind: "timeseries" | "stat" | "table" | "list" | "text";
      readonly source: "metrics" | "logs" | "traces";
      readonly unit?: "short" | "bytes" | "Bps" | "percentunit" | "percent" | "s" | "ms" | "reqps";
      readonly width: number;
      readonly queries: readonly {
        readonly query: string;
        readonly legend?: string;
      }[];
      readonly text?: string;
    }[];
  };
  readonly "POST /api/ingest-tokens": {
    readonly name: string;
    readonly signals?: readonly ("metrics" | "logs" | "traces")[];
    readonly host?: string;
    readonly cluster?: string;
    readonly networks?: readonly string[];
    readonly bytes_per_second?: number;
    readonly records_per_second?: number;
    readonly ttl?: string;
  };
  readonly "POST /api/ingest-tokens/{id}/rotate": {
    readonly overlap?: string;
    readonly ttl?: string;
  };
  readonly "POST /api/install-tokens": {
    readonly ttl?: string;
  };
  readonly "POST /api/keys": {
    readonly name: string;
  };
  readonly "POST /api/orgs": {
    readonly name: string;
    readonly admin: {
      readonly email: string;
      readonly password: string;
    };
  };
  readonly "POST /api/orgs/{id}/admins": {
    readonly email: string;
    readonly password: string;
  };
  readonly "PUT /api/orgs/{id}/limits": {
    readonly bytes_per_second?: number | null;
    readonly records_per_second?: number | null;
    readonly active_series?: number | null;
  };
  readonly "POST /api/read-tokens": {
    readonly name: string;
    readonly ttl?: string;
  };
  readonly "POST /api/users": {
    readonly email: string;
    readonly password: string;
    readonly role: "viewer" | "admin" | "operator";
  };
  readonly "PUT /api/users/{id}/password": {
    readonly password: string;
  };
  readonly "PUT /api/users/{id}/role": {
    readonly role: "viewer" | "admin" | "operator";
  };
  readonly "POST /api/v1/agents/register": {
    readonly hostname: string;
    readonly machine_id: string;
    readonly agent_version: string;
  };
  readonly "PUT /api/v1/agents/{id}/config": {
    readonly intervals?: {
      readonly metrics?: string;
      readonly heartbeat?: string;
    };
    readonly log_paths?: readonly string[];
    readonly signals?: readonly ("metrics" | "logs" | "traces")[];
    readonly log_level?: "debug" | "info" | "warn" | "error";
  };
  readonly "POST /api/views": {
    readonly name: string;
    readonly address: string;
  };
  readonly "PUT /api/views/{id}": {
    readonly name: string;
    readonly address: string;
  };
  readonly "POST /heartbeat": {
    readonly node?: string;
    readonly agent_version?: string;
    readonly interval_s?: number;
    readonly collector?: {
      readonly state?: string;
      readonly restarts?: number;
      readonly last_error?: string;
    };
    readonly installation?: string;
    readonly config?: {
      readonly version?: string;
      readonly error?: string;
    };
  };
  readonly "POST /ingest/agents/heartbeat": {
    readonly node?: string;
    readonly agent_version?: string;
    readonly interval_s?: number;
    readonly collector?: {
      readonly state?: string;
      readonly restarts?: number;
      readonly last_error?: string;
    };
    readonly installation?: string;
    readonly config?: {
      readonly version?: string;
      readonly error?: string;
    };
  };
  readonly "POST /ingest/logs/otlp": Readonly<Record<string, unknown>>;
  readonly "POST /ingest/traces": Readonly<Record<string, unknown>>;
  readonly "POST /loki/api/v1/push": Readonly<Record<string, unknown>>;
  readonly "POST /v1/logs": Readonly<Record<string, unknown>>;
  readonly "POST /v1/metrics": Readonly<Record<string, unknown>>;
  readonly "POST /v1/traces": Readonly<Record<string, unknown>>;
}
