package copytree

// Memory bounds the bytes of all files of a copy in memory at a time. One file
// takes at most FileMemory: WriteWindow bytes that wait for a COMMIT, which
// must be the Window of the nfsclient.Client, and readWindow bytes of
// outstanding READs.
const (
	Memory      = 128 << 20
	FileMemory  = WriteWindow + readWindow
	WriteWindow = 64 << 20
	readWindow  = 16 << 20
)

const (
	// listPiece is how many names of a local directory are read at a time.
	listPiece = 1024

	// holeBlock is the length in bytes of the zeros that a copy leaves a hole
	// for, if the original has holes. A hole below shortHole is copied, because
	// its extra call costs more than its bytes.
	holeBlock = 64 << 10
	shortHole = 1 << 20

	// leastWeight is the share of a small file in Memory: one buffer.
	leastWeight = 1 << 20

	// smallFile is the length below which a file is read with one READ of its
	// length plus one byte.
	smallFile = 1 << 20
)
