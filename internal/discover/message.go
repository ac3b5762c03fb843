package discover

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// The well-known queue pair of servers.
const (
	// QP is the number of a server's queue pair, "NFS", which clients must know
	// in advance.
	QP = 0x4e4653

	// QKey is its Q_Key. The key provides no protection.
	QKey = 0x4e465364
)

// The first words of all messages, which are in XDR (RFC 4506).
const (
	magic   = 0x4e465364 // "NFSd"
	version = 1
)

// A Kind is the kind of a message.
type Kind uint32

// The kinds: requests have odd numbers, and servers' messages even ones.
const (
	kindQuery      Kind = 1
	kindAnswer     Kind = 2
	kindRegister   Kind = 3
	kindRegistered Kind = 4
	kindWatch      Kind = 5
	kindWatching   Kind = 6
	kindRefused    Kind = 8
	kindNotice     Kind = 10
)

// A Request is the header of a client's messages.
type Request struct {
	Kind   Kind
	ID     uint64 // the reply has the same
	QKey   uint32 // for the reply; the queue pair is the sender's
	Cookie uint64 // from the server; 0: none yet
}

// A replyHeader is the header of a server's messages.
type replyHeader struct {
	Kind  Kind
	ID    uint64 // the request's; 0 in a notice
	Boot  uint64 // differs after each start
	Since uint64 // start time, in milliseconds since 1970
}

// Errors in messages.
var (
	errForm    = errors.New("discover: not a message of this protocol")
	errVersion = errors.New("discover: another version of this protocol")
)

// AppendTo appends the wire form.
func (r Request) AppendTo(b []byte) []byte {
	b = appendStart(b, r.Kind, r.ID)
	b = xdr.AppendUint32(b, r.QKey)
	b = xdr.AppendUint64(b, r.Cookie)
	return b
}

// parseRequest parses the header of a message. The rest, body, aliases b.
func parseRequest(b []byte) (q Request, body xdr.Reader, err error) {
	r := xdr.NewReader(b)
	if q.Kind, q.ID, err = parseStart(&r); err != nil {
		return Request{}, r, err
	}
	q.QKey, q.Cookie = r.Uint32(), r.Uint64()
	if err := r.Err(); err != nil {
		return Request{}, r, fmt.Errorf("%w: %w", errForm, err)
	}
	return q, r, nil
}

// AppendTo appends the wire form.
func (p replyHeader) AppendTo(b []byte) []byte {
	b = appendStart(b, p.Kind, p.ID)
	b = xdr.AppendUint64(b, p.Boot)
	return xdr.AppendUint64(b, p.Since)
}

// parseReply parses the header of a message. The rest, body, aliases b.
func parseReply(b []byte) (p replyHeader, body xdr.Reader, err error) {
	r := xdr.NewReader(b)
	if p.Kind, p.ID, err = parseStart(&r); err != nil {
		return replyHeader{}, r, err
	}
	p.Boot, p.Since = r.Uint64(), r.Uint64()
	if err := r.Err(); err != nil {
		return replyHeader{}, r, fmt.Errorf("%w: %w", errForm, err)
	}
	return p, r, nil
}

func appendStart(b []byte, k Kind, id uint64) []byte {
	b = xdr.AppendUint32(b, magic)
	b = xdr.AppendUint32(b, version)
	b = xdr.AppendUint32(b, uint32(k))
	return xdr.AppendUint64(b, id)
}

func parseStart(r *xdr.Reader) (k Kind, id uint64, err error) {
	m, v := r.Uint32(), r.Uint32()
	k, id = Kind(r.Uint32()), r.Uint64()
	switch {
	case r.Err() != nil || m != magic:
		return 0, 0, errForm
	case v != version:
		return 0, 0, fmt.Errorf("%w: %d", errVersion, v)
	}
	return k, id, nil
}

// padRequest lengthens a request with zeros, which are ignored.
func padRequest(b []byte, to int) []byte {
	if n := to - len(b); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	return b
}
