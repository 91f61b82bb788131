#!/usr/bin/env node
// Entry point of the cluster agent: it collects telemetry on a Kubernetes node, one pod per node.
import { main } from "../main.ts";

await main("cluster");
