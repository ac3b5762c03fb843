package chunks

// Limits of this implementation. RFC 8166 sets none, so without them a peer
// could make this end store as many segments as fit a message.
const (
	// MaxSegments is the number of segments that each list may hold. A payload
	// of 1 MiB in pages of 4 KiB needs 257; the rest is for smaller pages,
	// header pieces and padding.
	MaxSegments = 1024

	// MaxWriteChunks is the number of chunks that a Write list may hold. Each
	// is for one result; NFSv3 has one, an NFSv4 COMPOUND a few.
	MaxWriteChunks = 64
)
