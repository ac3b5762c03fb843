package rpcsec

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// errSeq means that the sequence number inside a message differs from its header's (RFC
// 2203, Section 5.3.3.1).
var errSeq = errors.New("rpcsec: the sequence number inside the message differs from the header's")

// A sliceScratch has slice lists for Context methods, which are reused.
type sliceScratch struct {
	parts [][]byte
	word  [4]byte
}

// reset removes the slices.
func (w *sliceScratch) reset() {
	clear(w.parts[:cap(w.parts)])
	w.parts = w.parts[:0]
}

// listOf returns a list that contains only b.
func (w *sliceScratch) listOf(b []byte) [][]byte {
	w.parts = append(w.parts[:0], b)
	return w.parts
}

// wordList returns a list that contains only the word v.
func (w *sliceScratch) wordList(v uint32) [][]byte {
	binary.BigEndian.PutUint32(w.word[:], v)
	return w.listOf(w.word[:])
}

// openBody verifies the arguments or results in body, and returns them. They are a part
// of body, at offset at. With privacy they are decrypted in place. After an error no part
// of the message may be used.
func (w *sliceScratch) openBody(c gss.Context, service, seq uint32, body []byte) (plain []byte, at int, err error) {
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
		if err := c.VerifyMIC(mic, w.listOf(plain)); err != nil {
			return nil, 0, err
		}
	default: // Section 5.3.2.3
		token := r.Opaque(unlimited)
		if err := r.Done(); err != nil {
			return nil, 0, err
		}
		message, err := c.Unwrap(w.listOf(token))
		if err != nil {
			return nil, 0, err
		}
		before, _ := c.WrapOverhead()
		plain, at = joinMessage(token, message, before), 4+before
	}
	s := xdr.NewReader(plain)
	if s.Uint32() != seq || s.Err() != nil {
		return nil, 0, errSeq
	}
	return plain[4:], at + 4, nil
}

// joinMessage makes the message contiguous, at an offset in the token that contains it.
// In a usual token it already is.
func joinMessage(token []byte, message [][]byte, at int) []byte {
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

// bodyOverhead returns the number of bytes that a service adds before and after the arguments
// or results.
func bodyOverhead(c gss.Context, service uint32) (front, behind int) {
	switch service {
	case serviceIntegrity:
		return 2 * 4, opaqueLen(c.MICSize())
	case servicePrivacy:
		before, after := c.WrapOverhead()
		return 4 + before + 4, after + 3
	}
	return 0, 0
}

// sealBody protects a message's arguments or results: those in head after the front (see
// bodyOverhead) that begins at offset at, and then those in rest, unless it is nil. With
// privacy they are encrypted in place. seal returns both slices, because they may move;
// the last one lacks the padding after the message's last opaque. After an error the
// message must not be sent.
func (w *sliceScratch) sealBody(c gss.Context, service, seq uint32, head []byte, at int, rest []byte) (sealedHead, sealedRest []byte, err error) {
	front, behind := bodyOverhead(c, service)
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
	before, after := c.WrapOverhead()
	binary.BigEndian.PutUint32(first, uint32(before+n+after))
	end := len(*last)
	*last = (*last)[:end+after]
	return head, rest, c.Wrap(first[4:4+before], w.parts, (*last)[end:])
}
