#!/usr/bin/env node
// The cluster agent: telemetry of one node of a Kubernetes cluster, one pod per node.
import { main } from "../main.ts";

await main("cluster");
