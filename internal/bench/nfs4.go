package main

// versionsFlag makes nfsrdmad serve NFSv4 in addition to NFSv3.
const versionsFlag = "--vers=3,4.1,4.2"

// nfs4Rows returns the rows that compare NFSv4.2 with NFSv3 on one server. Where
// the server's CPU time is compared, both ends share one CPU: with two, the server
// polls for the next call in the time that the client leaves it, and the NFSv4
// client leaves it more.
func nfs4Rows() []*row {
	ofServer := func(most float64) []comparedValue {
		return []comparedValue{{"server's CPU", "µs/call", serverCPUPerCall, atMostMore(most)}, {"", "k/s", kiloCallsPerSecond, goal{}}}
	}
	data := []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.97)}, {"CPU, both ends", "s/GiB", cpuPerGiB, atMost(1.03)}}
	return []*row{
		versionRow("READ 1 MiB, depth 16", unpinned, data, "big", "read", "1MiB", 16),
		versionRow("WRITE 1 MiB, depth 16, over an existing file", unpinned, data, "over", "write", "1MiB", 16),
		versionRow("READ 4 KiB at random, depth 16, both ends on one CPU", sameCPU, ofServer(1), "big", "randread", "4KiB", 16),
		versionRow("GETATTR, depth 16, both ends on one CPU", sameCPU, ofServer(1), "big", "getattr", "1", 16),
		versionRow("READ 4 KiB at random, depth 1, both ends on one CPU", sameCPU,
			[]comparedValue{{"", "µs", meanMicros, atMostMore(1.5)}}, "big", "randread", "4KiB", 1),
		versionRow("OPEN, READ 4 KiB, CLOSE of 10,000 files (version 3: LOOKUP, ACCESS, READ)", unpinned,
			[]comparedValue{{"server's CPU", "µs/file", serverCPUPerCall, goal{}}, {"", "k/s", kiloCallsPerSecond, goal{}}}, "pages", "open", "4KiB", 16),
	}
}

// versionRow compares one call over the two versions.
func versionRow(name string, at cpuPlacement, views []comparedValue, file, op, size string, depth int) *row {
	of := func(vers string) sideFunc {
		return mountBenchWith([]string{versionsFlag}, at, file, op, size, depth, "--vers="+vers)
	}
	return &row{name: "version 4.2: " + name, against: "version 3", ours: of("4.2"), limit: of("3"), views: views}
}
