package main

import (
	"slices"
	"time"
)

// allRows returns all measurements.
func allRows() []*row {
	mapped := rawTCP(unpinned, "mapped")
	read := mountBench(unpinned, "big", "read", "1MiB", 16)
	cpu := comparedValue{"CPU, both ends", "s/GiB", cpuPerGiB, goal{}}
	perCallCPU := comparedValue{"CPU, both ends", "µs/call", cpuPerCall, goal{}}
	return append(slices.Concat(nfs4Rows(), kerberosRows(), tlsRows(), kernelTLSRows()), []*row{
		{
			name: "TCP, one stream from one hot buffer", against: "TCP from the file's mapping",
			ours: rawTCP(unpinned, "hot"), limit: mapped, views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, cpu},
		},
		{
			name: "READ 1 MiB, depth 16", against: "TCP from the file's mapping",
			ours: read, limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.85)}, {cpu.what, cpu.unit, cpu.value, atMost(1.5)}},
		},
		{
			name: "WRITE 1 MiB, depth 16, over an existing file", against: "TCP from the file's mapping",
			ours: mountBench(unpinned, "over", "write", "1MiB", 16), limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.75)}, cpu},
		},
		{
			name: "TCP, stored over an existing file by its receiver", against: "TCP from the file's mapping",
			ours: storedStream, limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, cpu},
		},
		{
			name: "over an existing file: WRITE 1 MiB, depth 16", against: "TCP, stored over an existing file by its receiver",
			ours: mountBench(unpinned, "over", "write", "1MiB", 16), limit: storedStream,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, cpu},
		},
		{
			name: "READ 4 KiB at random, depth 1, both ends on one CPU", against: "TCP ping-pong of 4 KiB there",
			ours: mountBench(sameCPU, "big", "randread", "4KiB", 1), limit: rawTCP(sameCPU, "4096"),
			views: []comparedValue{{"", "µs", p50Micros, atMost(1.5)}},
		},
		{
			name: "READ 4 KiB at random, depth 1, on two CPUs", against: "TCP ping-pong of 4 KiB there", cpus: 2,
			ours: mountBench(twoCPUs, "big", "randread", "4KiB", 1), limit: rawTCP(twoCPUs, "4096"),
			views: []comparedValue{{"", "µs", p50Micros, atMost(1.5)}},
		},
		{
			name: "READ 4 KiB at random, depth 16", against: "TCP ping-pong of 4 KiB, depth 1",
			ours: mountBench(unpinned, "big", "randread", "4KiB", 16), limit: rawTCP(unpinned, "4096"),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "GETATTR, depth 16", against: "TCP ping-pong of 128 bytes, depth 1",
			ours: mountBench(unpinned, "big", "getattr", "1", 16), limit: rawTCP(unpinned, "128"),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "READDIRPLUS of 10,000 entries", against: "getdents and statx of the directory itself",
			ours: mountBench(unpinned, "small", "readdirplus", "1", 1), limit: localRole("lister", "small"),
			views: []comparedValue{{"", "ms", p50Millis, goal{}}},
		},
		{
			name: "READDIRPLUS of 100 entries", against: "getdents and statx of the directory itself",
			ours: mountBench(unpinned, "few", "readdirplus", "1", 1), limit: localRole("lister", "few"),
			views: []comparedValue{{"", "ms", p50Millis, goal{}}},
		},
		{
			name: "READ 1 MiB, depth 16, CRC32C on", against: "off",
			ours: mountBench(unpinned, "big", "read", "1MiB", 16, "--crc=on"), limit: read,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.8)}, cpu},
		},
		{
			name: "READ 1 MiB, 64 connections, depth 1", against: "one connection, depth 16",
			ours: mountBench(unpinned, "big", "read", "1MiB", 1, "--connections=64"), limit: read,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.9)}, cpu},
		},
		{
			name: "64 connections: READ 1 MiB, depth 1", against: "64 TCP streams from the file's mapping",
			ours: mountBench(unpinned, "big", "read", "1MiB", 1, "--connections=64"), limit: rawTCP(unpinned, "mapped*64"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, cpu},
		},
		{
			name: "64 TCP streams from the file's mapping", against: "TCP from the file's mapping",
			ours: rawTCP(unpinned, "mapped*64"), limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, cpu},
		},
		{
			name: "READ 64 KiB, depth 16", against: "READ 1 MiB, depth 16",
			ours: mountBench(unpinned, "big", "read", "64KiB", 16), limit: read,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "64 KiB: READ, depth 16", against: "blocks of 64 KiB asked for over TCP, 16 under way",
			ours: mountBench(unpinned, "big", "read", "64KiB", 16), limit: rawTCP(unpinned, "asked*65536"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "blocks of 64 KiB asked for over TCP, 16 under way", against: "TCP from the file's mapping",
			ours: rawTCP(unpinned, "asked*65536"), limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "READ 16 KiB, depth 16", against: "READ 1 MiB, depth 16",
			ours: mountBench(unpinned, "big", "read", "16KiB", 16), limit: read,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "16 KiB: READ, depth 16", against: "blocks of 16 KiB asked for over TCP, 16 under way",
			ours: mountBench(unpinned, "big", "read", "16KiB", 16), limit: rawTCP(unpinned, "asked*16384"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "blocks of 16 KiB asked for over TCP, 16 under way", against: "TCP from the file's mapping",
			ours: rawTCP(unpinned, "asked*16384"), limit: mapped,
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "GETATTR, 64 connections, depth 1", against: "one connection, depth 16",
			ours: mountBench(unpinned, "big", "getattr", "1", 1, "--connections=64"), limit: mountBench(unpinned, "big", "getattr", "1", 16),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.7)}, {perCallCPU.what, perCallCPU.unit, perCallCPU.value, atMost(1.5)}},
		},
		{
			name: "64 connections: ping-pongs by epoll alone", against: "GETATTR on one connection, depth 16",
			ours: pingPongs(64, 64), limit: mountBench(unpinned, "big", "getattr", "1", 16),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "64 connections: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(64, 64), limit: pingPongs(64, 64),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, goal{}}, perCallCPU},
		},
		{
			name: "1,000 connections, 64 busy: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(64, 1000), limit: pingPongs(64, 1000),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.6)}, perCallCPU},
		},
		{
			name: "10,000 connections, 1,000 busy: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(1000, 10_000), limit: pingPongs(1000, 10_000),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.6)}, perCallCPU},
		},
		{
			name: "64 connections: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: minimalGetattrs(64, 64), limit: pingPongs(64, 64),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, goal{}}, {"server's CPU", "µs/call", serverCPUPerCall, goal{}}},
		},
		{
			name: "1,000 connections, 64 busy: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: minimalGetattrs(64, 1000), limit: pingPongs(64, 1000),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.6)}, {"server's CPU", "µs/call", serverCPUPerCall, goal{}}},
		},
		{
			name: "10,000 connections, 1,000 busy: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: minimalGetattrs(1000, 10_000), limit: pingPongs(1000, 10_000),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.6)}, {"server's CPU", "µs/call", serverCPUPerCall, goal{}}},
		},
		{
			name: "1,000 idle connections", ours: idleConnections(1000),
			views: []comparedValue{{"memory of the server for each", "KiB", memoryKiB, atMost(16)}},
		},
		{
			name: "mount, read 1 MiB, direct, cold", against: "FUSE file system in memory",
			ours: roleOnMount("reader", "big", directIO), limit: roleOnMemFS("reader", "big", directIO),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.5)}},
		},
		{
			name: "mount, read 1 MiB, buffered, cold", against: "FUSE file system in memory",
			ours: roleOnMount("reader", "big", "buffered"), limit: roleOnMemFS("reader", "big", "buffered"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(1)}},
		},
		{
			name: "mount, write 1 MiB, direct", against: "FUSE file system in memory",
			ours: roleOnMount("writer", "over", directIO), limit: roleOnMemFS("writer", "over", directIO),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "mount, write 1 MiB, buffered, with fsync", against: "FUSE file system in memory",
			ours: roleOnMount("writer", "over", "buffered"), limit: roleOnMemFS("writer", "over", "buffered"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(1)}},
		},
		{
			name: "FUSE file system over plain TCP, read 1 MiB, direct", against: "FUSE file system in memory",
			ours: roleOnTCPFS("reader", "big", directIO), limit: roleOnMemFS("reader", "big", directIO),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, read 1 MiB, buffered", against: "FUSE file system in memory",
			ours: roleOnTCPFS("reader", "big", "buffered"), limit: roleOnMemFS("reader", "big", "buffered"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, write 1 MiB, buffered", against: "FUSE file system in memory",
			ours: roleOnTCPFS("writer", "over", "buffered"), limit: roleOnMemFS("writer", "over", "buffered"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, write 1 MiB, direct", against: "FUSE file system in memory",
			ours: roleOnTCPFS("writer", "over", directIO), limit: roleOnMemFS("writer", "over", directIO),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}},
		},
		reopenRow("re-open of cached files", 0),
		{
			name: "re-open of cached files, nolock", against: "FUSE file system in memory, asked OPEN and RELEASE",
			ours: reopenCached(0, "nolock"), limit: reopenedInMemory,
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(0.9)}},
		},
		reopenRow("re-open of cached files, server 0.5 ms away", 500*time.Microsecond),
		reopenRow("re-open of cached files, server 1 ms away", time.Millisecond),
		repeatRow("git status of 20,000 files, again", gitStatusJob, 0),
		repeatRow("git status of 20,000 files, again, server 1 ms away", gitStatusJob, time.Millisecond),
		repeatRow("compile of 20 files with 40 headers each, again", compileJob, 0),
		repeatRow("compile of 20 files with 40 headers each, again, server 1 ms away", compileJob, time.Millisecond),
	}...)
}

// noDelegations is the mount option that disables delegations.
const noDelegations = "nodeleg"

// reopenRow compares opens with and without delegations.
func reopenRow(name string, away time.Duration) *row {
	return &row{
		name: name, against: "without delegations", ours: reopenCached(away), limit: reopenCached(away, noDelegations),
		views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(10)}, {"calls at the server", "calls", serverCalls, goal{}}},
	}
}

// repeatRow compares a job's repetitions with and without delegations.
func repeatRow(name string, j *job, away time.Duration) *row {
	return &row{
		name: name, against: "without delegations", ours: repeatJob(j, away), limit: repeatJob(j, away, noDelegations),
		views: []comparedValue{{"", "s", elapsedSeconds, goal{}}, {"calls at the server", "calls", serverCalls, goal{}}},
	}
}
