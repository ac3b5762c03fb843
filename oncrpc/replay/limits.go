package replay

import "time"

const (
	// defaultMemory bounds the bytes of kept replies: about 80,000 usual
	// ones. A client needs a kept reply for each call that is under way when
	// its connection is lost, a few hundred.
	defaultMemory = 32 << 20

	// defaultAge is how long replies are kept: longer than a client takes
	// to notice a lost connection (Linux waits 60 s for a reply) and to make
	// the next.
	defaultAge = 2 * time.Minute

	// maxReply is the length in bytes of the longest reply that is kept.
	// Replies of NFSv3 procedures that must not be executed twice have at most
	// 400.
	maxReply = 1 << 10

	// entryCost is the bytes that a kept reply takes in addition to its own:
	// the entry and its place in a map.
	entryCost = 256

	// summed is how many bytes of a call the checksum covers: its header
	// with the longest credential and verifier that programs see, the file
	// handle, and a name or the start of the data.
	summed = 512

	// expires is how many expired replies one call removes. The bound
	// keeps a call from waiting for the removal of all expired replies.
	expires = 64
)
