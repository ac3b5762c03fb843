package rpctls

import "time"

// Limits of our own.
const (
	// handshakeTime bounds a handshake, with its probe, as in Linux's server.
	handshakeTime = 20 * time.Second

	// maxHandshakes bounds the handshakes of a server that are under way. One
	// takes some 50 KiB. A further one ends the oldest of the party that has the
	// most, so that handshakes that stand still keep nobody out.
	maxHandshakes = 512

	// maxAnswer is the length in bytes of the longest record that answers a probe:
	// any accepted or denied reply without results is shorter.
	maxAnswer = 1024

	// recordRoom is the number of bytes of a TLS record's content (RFC 8446,
	// Section 5.1), and recordCost that of its header, type and tag.
	recordRoom = 16 << 10
	recordCost = 22

	// heldRecords is the number of full records that leave in one write.
	heldRecords = 7

	// maxHeld bounds the bytes in which writers of a Server hold records, and partOfHeld
	// those of a party: a peer that does not read keeps its writer's. Beyond it, writers
	// make short records, of shortRecord bytes, and hold one at a time.
	maxHeld     = 16 << 20
	partOfHeld  = maxHeld / 2
	shortRecord = 3 << 10

	// answerRoom is the number of bytes that are held besides: TLS answers requests for
	// new keys.
	answerRoom = 1<<10 - recordCost

	// maxRecords bounds the records of one direction under one key: AES-GCM is safe
	// for 2^24.5 (RFC 8446, Section 5.5).
	maxRecords = 1 << 24

	// maxIdle bounds the records in succession that are not data, as in crypto/tls.
	maxIdle = 16

	// farewell bounds the time of the closure alert, for which nobody waits.
	farewell = 250 * time.Millisecond

	// settlePause is the time between two looks at what the kernel has yet to send.
	settlePause = time.Millisecond

	// lookPause is the time between two looks at the files.
	lookPause = time.Second

	// maxFile is the number of bytes of the longest file that is read.
	maxFile = 64 << 20
)
