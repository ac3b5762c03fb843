package bridge

import "time"

// Limits of our own, in bytes.
const (
	// MaxPayload is the longest READ, WRITE and directory listing that is
	// passed on: what a pooled buffer holds. Clients ask for 1 MiB at most,
	// and no server is known that offers more than 4.
	MaxPayload = 4 << 20

	// MaxRecord is what that takes of a record: credential, handles and
	// attributes are beside it.
	MaxRecord = MaxPayload + 64<<10

	// longList bounds the lists of MOUNT's DUMP and EXPORT, which the
	// protocol does not bound, and shortResults all other results of MOUNT:
	// a handle and some authentication flavours.
	longList     = 1 << 20
	shortResults = 1 << 10

	// unknownResults bounds the results of programs that the bridge does
	// not know: NFSACL's with the longest of lists are half of it.
	unknownResults = 64 << 10

	// sealedPayload bounds data and listings where the arguments that tell
	// their length cannot be read, and sealRoom is what a seal adds.
	sealedPayload = 1 << 20
	sealRoom      = 1 << 10

	// copied is the length up to which a reply is copied, so that the buffer
	// it was received in is free before the client has taken the reply.
	copied = 4 << 10
)

// complainEvery is how often the log is told of calls that failed here. A client
// that makes such calls would fill it.
const complainEvery = time.Second
