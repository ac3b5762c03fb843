package main

import (
	"slices"
	"time"
)

// rows returns all measurements.
func rows() []*row {
	mapped := tcp(free, "mapped")
	read := bench(free, "big", "read", "1MiB", 16)
	cpu := view{"CPU, both ends", "s/GiB", perGiB, goal{}}
	perCallCPU := view{"CPU, both ends", "µs/call", perCall, goal{}}
	return append(slices.Concat(version4(), secured(), encrypted(), inKernel()), []*row{
		{
			name: "TCP, one stream from one hot buffer", against: "TCP from the file's mapping",
			ours: tcp(free, "hot"), limit: mapped, views: []view{{"", "GB/s", rate, goal{}}, cpu},
		},
		{
			name: "READ 1 MiB, depth 16", against: "TCP from the file's mapping",
			ours: read, limit: mapped,
			views: []view{{"", "GB/s", rate, atLeast(0.85)}, {cpu.what, cpu.unit, cpu.of, atMost(1.5)}},
		},
		{
			name: "WRITE 1 MiB, depth 16, over an existing file", against: "TCP from the file's mapping",
			ours: bench(free, "over", "write", "1MiB", 16), limit: mapped,
			views: []view{{"", "GB/s", rate, atLeast(0.75)}, cpu},
		},
		{
			name: "TCP, stored over an existing file by its receiver", against: "TCP from the file's mapping",
			ours: stored, limit: mapped,
			views: []view{{"", "GB/s", rate, goal{}}, cpu},
		},
		{
			name: "over an existing file: WRITE 1 MiB, depth 16", against: "TCP, stored over an existing file by its receiver",
			ours: bench(free, "over", "write", "1MiB", 16), limit: stored,
			views: []view{{"", "GB/s", rate, goal{}}, cpu},
		},
		{
			name: "READ 4 KiB at random, depth 1, both ends on one CPU", against: "TCP ping-pong of 4 KiB there",
			ours: bench(together, "big", "randread", "4KiB", 1), limit: tcp(together, "4096"),
			views: []view{{"", "µs", p50, atMost(1.5)}},
		},
		{
			name: "READ 4 KiB at random, depth 1, on two CPUs", against: "TCP ping-pong of 4 KiB there", cpus: 2,
			ours: bench(across, "big", "randread", "4KiB", 1), limit: tcp(across, "4096"),
			views: []view{{"", "µs", p50, atMost(1.5)}},
		},
		{
			name: "READ 4 KiB at random, depth 16", against: "TCP ping-pong of 4 KiB, depth 1",
			ours: bench(free, "big", "randread", "4KiB", 16), limit: tcp(free, "4096"),
			views: []view{{"", "k/s", calls, goal{}}, perCallCPU},
		},
		{
			name: "GETATTR, depth 16", against: "TCP ping-pong of 128 bytes, depth 1",
			ours: bench(free, "big", "getattr", "1", 16), limit: tcp(free, "128"),
			views: []view{{"", "k/s", calls, goal{}}, perCallCPU},
		},
		{
			name: "READDIRPLUS of 10,000 entries", against: "getdents and statx of the directory itself",
			ours: bench(free, "small", "readdirplus", "1", 1), limit: local("lister", "small"),
			views: []view{{"", "ms", p50ms, goal{}}},
		},
		{
			name: "READDIRPLUS of 100 entries", against: "getdents and statx of the directory itself",
			ours: bench(free, "few", "readdirplus", "1", 1), limit: local("lister", "few"),
			views: []view{{"", "ms", p50ms, goal{}}},
		},
		{
			name: "READ 1 MiB, depth 16, CRC32C on", against: "off",
			ours: bench(free, "big", "read", "1MiB", 16, "--crc=on"), limit: read,
			views: []view{{"", "GB/s", rate, atLeast(0.8)}, cpu},
		},
		{
			name: "READ 1 MiB, 64 connections, depth 1", against: "one connection, depth 16",
			ours: bench(free, "big", "read", "1MiB", 1, "--connections=64"), limit: read,
			views: []view{{"", "GB/s", rate, atLeast(0.9)}, cpu},
		},
		{
			name: "64 connections: READ 1 MiB, depth 1", against: "64 TCP streams from the file's mapping",
			ours: bench(free, "big", "read", "1MiB", 1, "--connections=64"), limit: tcp(free, "mapped*64"),
			views: []view{{"", "GB/s", rate, goal{}}, cpu},
		},
		{
			name: "64 TCP streams from the file's mapping", against: "TCP from the file's mapping",
			ours: tcp(free, "mapped*64"), limit: mapped,
			views: []view{{"", "GB/s", rate, goal{}}, cpu},
		},
		{
			name: "READ 64 KiB, depth 16", against: "READ 1 MiB, depth 16",
			ours: bench(free, "big", "read", "64KiB", 16), limit: read,
			views: []view{{"", "GB/s", rate, goal{}}, perCallCPU},
		},
		{
			name: "64 KiB: READ, depth 16", against: "blocks of 64 KiB asked for over TCP, 16 under way",
			ours: bench(free, "big", "read", "64KiB", 16), limit: tcp(free, "asked*65536"),
			views: []view{{"", "GB/s", rate, goal{}}, perCallCPU},
		},
		{
			name: "blocks of 64 KiB asked for over TCP, 16 under way", against: "TCP from the file's mapping",
			ours: tcp(free, "asked*65536"), limit: mapped,
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "READ 16 KiB, depth 16", against: "READ 1 MiB, depth 16",
			ours: bench(free, "big", "read", "16KiB", 16), limit: read,
			views: []view{{"", "GB/s", rate, goal{}}, perCallCPU},
		},
		{
			name: "16 KiB: READ, depth 16", against: "blocks of 16 KiB asked for over TCP, 16 under way",
			ours: bench(free, "big", "read", "16KiB", 16), limit: tcp(free, "asked*16384"),
			views: []view{{"", "GB/s", rate, goal{}}, perCallCPU},
		},
		{
			name: "blocks of 16 KiB asked for over TCP, 16 under way", against: "TCP from the file's mapping",
			ours: tcp(free, "asked*16384"), limit: mapped,
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "GETATTR, 64 connections, depth 1", against: "one connection, depth 16",
			ours: bench(free, "big", "getattr", "1", 1, "--connections=64"), limit: bench(free, "big", "getattr", "1", 16),
			views: []view{{"", "k/s", calls, atLeast(0.7)}, {perCallCPU.what, perCallCPU.unit, perCallCPU.of, atMost(1.5)}},
		},
		{
			name: "64 connections: ping-pongs by epoll alone", against: "GETATTR on one connection, depth 16",
			ours: pingPongs(64, 64), limit: bench(free, "big", "getattr", "1", 16),
			views: []view{{"", "k/s", calls, goal{}}, perCallCPU},
		},
		{
			name: "64 connections: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(64, 64), limit: pingPongs(64, 64),
			views: []view{{"", "k/s", calls, goal{}}, perCallCPU},
		},
		{
			name: "1,000 connections, 64 busy: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(64, 1000), limit: pingPongs(64, 1000),
			views: []view{{"", "k/s", calls, atLeast(0.6)}, perCallCPU},
		},
		{
			name: "10,000 connections, 1,000 busy: GETATTR, depth 1", against: "ping-pongs by epoll alone",
			ours: getattrs(1000, 10_000), limit: pingPongs(1000, 10_000),
			views: []view{{"", "k/s", calls, atLeast(0.6)}, perCallCPU},
		},
		{
			name: "64 connections: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: bareGetattrs(64, 64), limit: pingPongs(64, 64),
			views: []view{{"", "k/s", calls, goal{}}, {"server's CPU", "µs/call", perCallOfServer, goal{}}},
		},
		{
			name: "1,000 connections, 64 busy: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: bareGetattrs(64, 1000), limit: pingPongs(64, 1000),
			views: []view{{"", "k/s", calls, atLeast(0.6)}, {"server's CPU", "µs/call", perCallOfServer, goal{}}},
		},
		{
			name: "10,000 connections, 1,000 busy: GETATTR, depth 1, by a client of no cost", against: "ping-pongs by epoll alone",
			ours: bareGetattrs(1000, 10_000), limit: pingPongs(1000, 10_000),
			views: []view{{"", "k/s", calls, atLeast(0.6)}, {"server's CPU", "µs/call", perCallOfServer, goal{}}},
		},
		{
			name: "1,000 idle connections", ours: idle(1000),
			views: []view{{"memory of the server for each", "KiB", kib, atMost(16)}},
		},
		{
			name: "mount, read 1 MiB, direct, cold", against: "FUSE file system in memory",
			ours: ofMount("reader", "big", direct), limit: ofMemFS("reader", "big", direct),
			views: []view{{"", "GB/s", rate, atLeast(0.5)}},
		},
		{
			name: "mount, read 1 MiB, buffered, cold", against: "FUSE file system in memory",
			ours: ofMount("reader", "big", "buffered"), limit: ofMemFS("reader", "big", "buffered"),
			views: []view{{"", "GB/s", rate, atLeast(1)}},
		},
		{
			name: "mount, write 1 MiB, direct", against: "FUSE file system in memory",
			ours: ofMount("writer", "over", direct), limit: ofMemFS("writer", "over", direct),
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "mount, write 1 MiB, buffered, with fsync", against: "FUSE file system in memory",
			ours: ofMount("writer", "over", "buffered"), limit: ofMemFS("writer", "over", "buffered"),
			views: []view{{"", "GB/s", rate, atLeast(1)}},
		},
		{
			name: "FUSE file system over plain TCP, read 1 MiB, direct", against: "FUSE file system in memory",
			ours: ofTCPFS("reader", "big", direct), limit: ofMemFS("reader", "big", direct),
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, read 1 MiB, buffered", against: "FUSE file system in memory",
			ours: ofTCPFS("reader", "big", "buffered"), limit: ofMemFS("reader", "big", "buffered"),
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, write 1 MiB, buffered", against: "FUSE file system in memory",
			ours: ofTCPFS("writer", "over", "buffered"), limit: ofMemFS("writer", "over", "buffered"),
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		{
			name: "FUSE file system over plain TCP, write 1 MiB, direct", against: "FUSE file system in memory",
			ours: ofTCPFS("writer", "over", direct), limit: ofMemFS("writer", "over", direct),
			views: []view{{"", "GB/s", rate, goal{}}},
		},
		reopens("re-open of cached files", 0),
		{
			name: "re-open of cached files, nolock", against: "FUSE file system in memory, asked OPEN and RELEASE",
			ours: reopened(0, "nolock"), limit: reopenedInMemory,
			views: []view{{"", "k/s", calls, atLeast(0.9)}},
		},
		reopens("re-open of cached files, server 0.5 ms away", 500*time.Microsecond),
		reopens("re-open of cached files, server 1 ms away", time.Millisecond),
		repeats("git status of 20,000 files, again", gitStatus, 0),
		repeats("git status of 20,000 files, again, server 1 ms away", gitStatus, time.Millisecond),
		repeats("compile of 20 files with 40 headers each, again", compile, 0),
		repeats("compile of 20 files with 40 headers each, again, server 1 ms away", compile, time.Millisecond),
	}...)
}

// noDelegations is the mount option against delegations.
const noDelegations = "nodeleg"

// reopens compares opens with delegations and without.
func reopens(name string, away time.Duration) *row {
	return &row{
		name: name, against: "without delegations", ours: reopened(away), limit: reopened(away, noDelegations),
		views: []view{{"", "k/s", calls, atLeast(10)}, {"calls at the server", "calls", served, goal{}}},
	}
}

// repeats compares repeating a job with delegations and without.
func repeats(name string, j *job, away time.Duration) *row {
	return &row{
		name: name, against: "without delegations", ours: again(j, away), limit: again(j, away, noDelegations),
		views: []view{{"", "s", seconds, goal{}}, {"calls at the server", "calls", served, goal{}}},
	}
}
