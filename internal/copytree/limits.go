package copytree

import "time"

// Memory bounds the bytes that a copy holds in memory for all its files. One file
// takes at most FileMemory: WriteWindow bytes that wait for a COMMIT, which must be
// the Window of the nfsclient.Client, and readWindow bytes for outstanding READs.
const (
	Memory      = 128 << 20
	FileMemory  = WriteWindow + readWindow
	WriteWindow = 64 << 20
	readWindow  = 16 << 20
)

// MaxNameLength is the longest name to which .part is appended. A longer one is shortened
// first, because file systems limit names to 255 bytes, some to 143.
const MaxNameLength = 128

const (
	// maxLinked is the number of remembered source files with several names whose
	// names the copy has not all found.
	maxLinked = 1 << 20

	// maxAttrNames is the maximum length of a list of extended attribute names, in
	// bytes (XATTR_LIST_MAX).
	maxAttrNames = 64 << 10

	// listBatch is the number of names that are read from a local directory at a
	// time.
	listBatch = 1024

	// holeBlock is the length in bytes of a block of zeros that a copy replaces
	// with a hole, if the original has holes. A hole shorter than shortHole is
	// copied, because its extra call costs more than its bytes.
	holeBlock = 64 << 10
	shortHole = 1 << 20

	// minWeight is the part of Memory that a small file takes: one buffer.
	minWeight = 1 << 20

	// syncInterval is the number of bytes after which a growing local file is put on
	// stable storage. unstableTail bounds the end of a partial file that may be lost
	// after a crash, or have gaps: 2*syncInterval bytes here, WriteWindow bytes on a
	// server, plus one READ or WRITE for each call in flight.
	syncInterval = 64 << 20
	unstableTail = 192 << 20

	// compareBlock is the number of bytes that are compared at a time.
	compareBlock = 4 << 20

	// maxListedParts is the number of incomplete copies that a copy names at its end.
	maxListedParts = 16

	// cleanupTime is the time limit for removing a partial file after a copy has been
	// interrupted.
	cleanupTime = time.Second

	// smallFile is the length below which a file is read with one READ for its
	// length plus one byte.
	smallFile = 1 << 20
)
