// Package wiretest loads the golden bytes with which codec tests compare.
//
// A golden file lies in a package's testdata directory, ends in .hex, and holds
// bytes as pairs of hexadecimal digits. Spaces and line ends are ignored; a #
// starts a comment that extends to the end of its line. The first comment names the
// source: a capture and its frame, or a standard and its figure.
//
//	# siw-lo-rping.pcap, frame 13, bytes 2 to 15: RDMA Write of siw
//	c1 40                    # DDP control, RDMAP control
//	22 63 9a 00              # STag
//	00 00 55 b8 7f 7b d7 30  # TO
//
// The package is independent of protocols. Each call returns a new slice, which the
// caller may change.
package wiretest
