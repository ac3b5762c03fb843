package rpcsec

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// errSeq means that a message has another sequence number inside than its
// header (RFC 2203, Section 5.3.3.1).
var errSeq = errors.New("rpcsec: the sequence number inside the message is another")

// A bench has the lists of slices on which a Context works, for reuse.
type bench struct {
	parts [][]byte
	word  [4]byte
}

// clear forgets the slices.
func (w *bench) clear() {
	clear(w.parts[:cap(w.parts)])
	w.parts = w.parts[:0]
}

// of returns a list of one slice.
func (w *bench) of(b []byte) [][]byte {
	w.parts = append(w.parts[:0], b)
	return w.parts
}

// number returns a list of one word.
func (w *bench) number(v uint32) [][]byte {
	binary.BigEndian.PutUint32(w.word[:], v)
	return w.of(w.word[:])
}

// open checks the arguments or results that body has, and returns them. They are
// a part of body, at offset at. With privacy they are decrypted in place. After
// an error nothing of the message may be used.
func (w *bench) open(c gss.Context, service, seq uint32, body []byte) (plain []byte, at int, err error) {
	r := xdr.NewReader(body)
	switch service {
	case serviceNone:
		return body, 0, nil
	case serviceIntegrity: // RFC 2203, Section 5.3.2.2
		plain, at = r.Opaque(unlimited), 4
		mic := r.Opaque(unlimited)
		if err := r.Done(); err != nil {
			return nil, 0, err
		}
		if err := c.VerifyMIC(mic, w.of(plain)); err != nil {
			return nil, 0, err
		}
	default: // Section 5.3.2.3
		token := r.Opaque(unlimited)
		if err := r.Done(); err != nil {
			return nil, 0, err
		}
		message, err := c.Unwrap(w.of(token))
		if err != nil {
			return nil, 0, err
		}
		before, _ := c.WrapRoom()
		plain, at = settle(token, message, before), 4+before
	}
	s := xdr.NewReader(plain)
	if s.Uint32() != seq || s.Err() != nil {
		return nil, 0, errSeq
	}
	return plain[4:], at + 4, nil
}

// settle makes the message continuous, at an offset of the token that contains
// it. A token of the usual form has it there.
func settle(token []byte, message [][]byte, at int) []byte {
	n := at
	for _, part := range message {
		if len(part) == 0 {
			continue
		}
		if n >= len(token) || &token[n] != &part[0] {
			copy(token[min(n, len(token)):], part)
		}
		n += len(part)
	}
	return token[min(at, len(token)):min(n, len(token))]
}

// room returns by how many bytes a service makes a message longer, in front of
// the arguments or results and behind them.
func room(c gss.Context, service uint32) (front, behind int) {
	switch service {
	case serviceIntegrity:
		return 2 * 4, padded(c.MICSize())
	case servicePrivacy:
		before, after := c.WrapRoom()
		return 4 + before + 4, after + 3
	}
	return 0, 0
}

// seal protects the arguments or results of a message: those in head behind the
// front (see room) that begins at offset at, and then those in rest, unless it is
// nil. With privacy they are encrypted in place. Both slices are returned, because
// they may move; the last of them lacks the padding of the message's last opaque.
// After an error the message must not be sent.
func (w *bench) seal(c gss.Context, service, seq uint32, head []byte, at int, rest []byte) (sealedHead, sealedRest []byte, err error) {
	front, behind := room(c, service)
	last := &head
	if rest != nil {
		last = &rest
	}
	*last = slices.Grow(*last, behind)
	first := head[at:]
	binary.BigEndian.PutUint32(first[front-4:], seq)
	w.parts = append(w.parts[:0], first[front-4:])
	n := len(first) - front + 4
	if rest != nil {
		w.parts = append(w.parts, rest)
		n += len(rest)
	}
	if service == serviceIntegrity {
		binary.BigEndian.PutUint32(first, uint32(n))
		*last, err = c.AppendMIC(xdr.AppendUint32(*last, uint32(c.MICSize())), w.parts)
		return head, rest, err
	}
	before, after := c.WrapRoom()
	binary.BigEndian.PutUint32(first, uint32(before+n+after))
	end := len(*last)
	*last = (*last)[:end+after]
	return head, rest, c.Wrap(first[4:4+before], w.parts, (*last)[end:])
}
