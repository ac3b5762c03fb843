package replay

import "time"

const (
	// defaultMemory bounds the memory for kept replies, in bytes: about 70,000 usual
	// ones. A client needs a kept reply for each call that is in flight when its
	// connection is lost, a few hundred.
	defaultMemory = 32 << 20

	// defaultMaxAge is the time for which replies are kept: longer than a client takes to
	// notice a lost connection (Linux waits 60 s for a reply) and to establish the next.
	defaultMaxAge = 2 * time.Minute

	// shortReply is the maximum length in bytes of a reply that is restored by a simple
	// copy: NFSv3 procedures that must not be executed twice have replies with at most
	// 400 bytes.
	shortReply = 1 << 10

	// maxReply is the maximum length in bytes of a kept reply: an NFSv4.0 COMPOUND may
	// remove a name, and then get a long access control list or list the directory.
	maxReply = 64 << 10

	// maxAlike is the maximum number of kept calls that differ only in their connections.
	maxAlike = 16

	// entryCost is a kept reply's overhead in bytes: the entry and its slot in a map.
	entryCost = 320

	// checksumLen is the number of bytes that a call's checksum covers: its header with
	// the longest credential and verifier that programs see, the file handle, and a name
	// or the start of the data.
	checksumLen = 512

	// maxExpiredRemovals is the maximum number of expired replies that one call removes,
	// so that a call does not wait until all are removed.
	maxExpiredRemovals = 64
)
