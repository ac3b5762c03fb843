package discover

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// The address of servers.
const (
	// QP is the number of a server's queue pair, "NFS", which clients must know
	// in advance.
	QP = 0x4e4653

	// QKey is its Q_Key. The key is no protection.
	QKey = 0x4e465364
)

// The start of all messages, which are in XDR (RFC 4506).
const (
	magic   = 0x4e465364 // "NFSd"
	version = 1
)

// A Kind is the kind of a message.
type Kind uint32

// The kinds: requests have odd numbers, and messages of servers even ones.
const (
	KindQuery      Kind = 1
	KindAnswer     Kind = 2
	KindRegister   Kind = 3
	KindRegistered Kind = 4
	KindWatch      Kind = 5
	KindWatching   Kind = 6
	KindRefused    Kind = 8
	KindNotice     Kind = 10
)

// A Request is the start of a client's messages.
type Request struct {
	Kind   Kind
	ID     uint64 // the answer has the same
	QKey   uint32 // for the answer; the queue pair is the sender's
	Cookie uint64 // from the server; 0: none yet
}

// A Reply is the start of a server's messages.
type Reply struct {
	Kind  Kind
	ID    uint64 // the request's; 0 in a Notice
	Boot  uint64 // differs after each start
	Since uint64 // time of the start, in milliseconds since 1970
}

// Errors of messages.
var (
	ErrForm    = errors.New("discover: not a message of this protocol")
	ErrVersion = errors.New("discover: another version of this protocol")
)

// AppendTo appends the wire form.
func (r Request) AppendTo(b []byte) []byte {
	b = appendStart(b, r.Kind, r.ID)
	b = xdr.AppendUint32(b, r.QKey)
	b = xdr.AppendUint64(b, r.Cookie)
	return b
}

// ParseRequest reads the start of a message. The rest, body, aliases b.
func ParseRequest(b []byte) (q Request, body xdr.Reader, err error) {
	r := xdr.NewReader(b)
	if q.Kind, q.ID, err = parseStart(&r); err != nil {
		return Request{}, r, err
	}
	q.QKey, q.Cookie = r.Uint32(), r.Uint64()
	if err := r.Err(); err != nil {
		return Request{}, r, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return q, r, nil
}

// AppendTo appends the wire form.
func (p Reply) AppendTo(b []byte) []byte {
	b = appendStart(b, p.Kind, p.ID)
	b = xdr.AppendUint64(b, p.Boot)
	return xdr.AppendUint64(b, p.Since)
}

// ParseReply reads the start of a message. The rest, body, aliases b.
func ParseReply(b []byte) (p Reply, body xdr.Reader, err error) {
	r := xdr.NewReader(b)
	if p.Kind, p.ID, err = parseStart(&r); err != nil {
		return Reply{}, r, err
	}
	p.Boot, p.Since = r.Uint64(), r.Uint64()
	if err := r.Err(); err != nil {
		return Reply{}, r, fmt.Errorf("%w: %w", ErrForm, err)
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
		return 0, 0, ErrForm
	case v != version:
		return 0, 0, fmt.Errorf("%w: %d", ErrVersion, v)
	}
	return k, id, nil
}

// pad lengthens a request with zeros, which are ignored.
func pad(b []byte, to int) []byte {
	if n := to - len(b); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	return b
}
