package chunks

// Limits of our own. RFC 8166 sets none, so without them a peer could make this
// end store as many segments as fit a message.
const (
	// MaxSegments is the number of segments that each of the three lists may
	// hold. A payload of 1 MiB in pages of 4 KiB takes 257; the rest is for
	// smaller pages, pieces of headers and padding.
	MaxSegments = 1024

	// MaxWriteChunks is the number of chunks that a Write list may hold. Each
	// takes one result; NFSv3 has one, an NFSv4 compound a few.
	MaxWriteChunks = 64
)
