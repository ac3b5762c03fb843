package rpctls

import "time"

// Implementation limits.
const (
	// handshakeTime bounds a handshake, with its probe, as in Linux's server.
	handshakeTime = 20 * time.Second

	// maxHandshakes bounds a server's concurrent handshakes. One takes some 50 KiB. A
	// further one aborts the oldest of the party that has the most, so that stalled
	// handshakes keep no client out.
	maxHandshakes = 512

	// maxReply is the maximum length in bytes of a probe's reply record: any accepted or
	// denied reply without results is shorter.
	maxReply = 1024

	// maxRecordContent is the maximum length in bytes of a TLS record's content (RFC 8446,
	// Section 5.1), and recordCost the length of its header, type and tag.
	maxRecordContent = 16 << 10
	recordCost       = 22

	// heldRecords is the number of full records sent in one write.
	heldRecords = 7

	// maxHeld bounds the bytes in which a Server's writers hold records, and partOfHeld a
	// party's share: a peer that does not read blocks its writer's. Beyond it, writers
	// create short records with shortRecord bytes, and hold one at a time.
	maxHeld     = 16 << 20
	partOfHeld  = maxHeld / 2
	shortRecord = 3 << 10

	// replySpace is the number of further bytes that may be held: TLS replies to key
	// update requests.
	replySpace = 1<<10 - recordCost

	// maxRecords bounds the records in one direction under one key: AES-GCM is safe for
	// 2^24.5 (RFC 8446, Section 5.5).
	maxRecords = 1 << 24

	// maxControlRecords bounds consecutive records that are not data, as in crypto/tls.
	maxControlRecords = 16

	// closeTimeout bounds the time for sending the closure alert, whose receipt is not
	// confirmed.
	closeTimeout = 250 * time.Millisecond

	// settlePause is the interval between two checks of the kernel's send queue.
	settlePause = time.Millisecond

	// lookPause is the interval between two checks of the files.
	lookPause = time.Second

	// faultPause is the interval between two errors in the log about files that cannot be used.
	faultPause = time.Hour

	// maxFile is the maximum length in bytes of a file.
	maxFile = 64 << 20
)
