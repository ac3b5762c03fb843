package main

// bothVersions makes nfsrdmad answer version 4 beside version 3.
const bothVersions = "--vers=3,4.1,4.2"

// version4 returns the rows that compare version 4.2 with version 3 of one
// server. Where the server's CPU is compared, both ends share one: with two,
// the server spends what the client leaves it on looking for the next call, and
// version 4's client leaves it more.
func version4() []*row {
	ofServer := func(most float64) []view {
		return []view{{"server's CPU", "µs/call", perCallOfServer, atMostMore(most)}, {"", "k/s", calls, goal{}}}
	}
	data := []view{{"", "GB/s", rate, atLeast(0.97)}, {"CPU, both ends", "s/GiB", perGiB, atMost(1.03)}}
	return []*row{
		versions("READ 1 MiB, depth 16", free, data, "big", "read", "1MiB", 16),
		versions("WRITE 1 MiB, depth 16, over an existing file", free, data, "over", "write", "1MiB", 16),
		versions("READ 4 KiB at random, depth 16, both ends on one CPU", together, ofServer(1), "big", "randread", "4KiB", 16),
		versions("GETATTR, depth 16, both ends on one CPU", together, ofServer(1), "big", "getattr", "1", 16),
		versions("READ 4 KiB at random, depth 1, both ends on one CPU", together,
			[]view{{"", "µs", mean, atMostMore(1.5)}}, "big", "randread", "4KiB", 1),
		versions("OPEN, READ 4 KiB, CLOSE of 10,000 files (version 3: LOOKUP, ACCESS, READ)", free,
			[]view{{"server's CPU", "µs/file", perCallOfServer, goal{}}, {"", "k/s", calls, goal{}}}, "pages", "open", "4KiB", 16),
	}
}

// versions compares the two versions of a call.
func versions(name string, at place, views []view, file, op, size string, depth int) *row {
	of := func(vers string) side {
		return benchOf([]string{bothVersions}, at, file, op, size, depth, "--vers="+vers)
	}
	return &row{name: "version 4.2: " + name, against: "version 3", ours: of("4.2"), limit: of("3"), views: views}
}
