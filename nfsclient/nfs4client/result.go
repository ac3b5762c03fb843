package nfs4client

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// decodeHeader decodes the results up to the first operation.
func (c *Compound) decodeHeader(seq bool) error {
	r := &c.x.Results
	c.head.Decode(r)
	most := uint32(len(c.steps))
	if seq {
		most++
	}
	switch {
	case r.Err() != nil:
		return replyError("COMPOUND: %w", r.Err())
	case len(c.head.Tag) != 0:
		return replyError("COMPOUND: the reply has a tag of %d bytes, but the call had none", len(c.head.Tag))
	case c.head.N > most:
		return replyError("COMPOUND: %d results for %d operations", c.head.N, most)
	case c.head.N == 0 && c.head.Status == nfs4.OK && most > 0:
		return replyError("COMPOUND: NFS4_OK without results")
	case c.head.N == 0 && c.head.Status != nfs4.OK:
		return &Error{Status: c.head.Status}
	}
	return nil
}

// decodeSequence decodes SEQUENCE's results. Its status may be an error.
func (c *Compound) decodeSequence() (nfs4.Status, error) {
	status, err := c.decodeResult(0, nfs4.OpSequence, &c.seqRes)
	if err != nil || status != nfs4.OK {
		return status, err
	}
	if c.seqRes.Session != c.seqArgs.Session || c.seqRes.Slot != c.seqArgs.Slot || c.seqRes.Sequence != c.seqArgs.Sequence {
		return status, replyError("SEQUENCE: the result is for slot %d, sequence ID %d, not for slot %d, sequence ID %d",
			c.seqRes.Slot, c.seqRes.Sequence, c.seqArgs.Slot, c.seqArgs.Sequence)
	}
	return status, nil
}

// decodeResults decodes all operations' results except SEQUENCE's; first is the
// number of results already decoded. It returns an Error if an operation
// failed. ran is the number of c's operations that succeeded.
func (c *Compound) decodeResults(first int) (ran int, err error) {
	for i := first; i < int(c.head.N); i++ {
		s := &c.steps[i-first]
		status, err := c.decodeResult(i, s.op, s.res)
		if err != nil {
			return ran, err
		}
		if status != nfs4.OK {
			if err := c.x.Results.Done(); err != nil {
				return ran, replyError("%v: %w", s.op, err)
			}
			return ran, &Error{s.op, status}
		}
		if s.op == nfs4.OpRead {
			if err := c.placeReadData(s.res.(*nfs4.ReadRes)); err != nil {
				return ran, err
			}
		}
		ran++
	}
	if ran < len(c.steps) {
		return ran, replyError("COMPOUND: NFS4_OK with results for %d of %d operations", ran, len(c.steps))
	}
	if err := c.x.Results.Done(); err != nil {
		return ran, replyError("COMPOUND: %w", err)
	}
	return ran, nil
}

// decodeResult decodes the i-th result, which must be op's, into res.
func (c *Compound) decodeResult(i int, op nfs4.Op, res nfs4.Message) (nfs4.Status, error) {
	r := &c.x.Results
	got := nfs4.Op(r.Uint32())
	ahead := r.Rest()
	if r.Err() != nil || len(ahead) < 4 {
		return 0, replyError("%v: %w", op, xdr.ErrShort)
	}
	status, last := nfs4.Status(binary.BigEndian.Uint32(ahead)), i+1 == int(c.head.N)
	switch {
	case got == nfs4.OpIllegal && op != got && status == nfs4.ErrOpIllegal && last && c.head.Status == status:
		r.Uint32()
		return status, nil
	case got != op:
		return 0, replyError("result %d is for %v, not for %v", i, got, op)
	case !last && status != nfs4.OK:
		return 0, replyError("%v: results follow %v", op, status)
	case last && status != c.head.Status:
		return 0, replyError("%v: %v, but COMPOUND: %v", op, status, c.head.Status)
	}
	if res.Decode(r); r.Err() != nil {
		return 0, replyError("%v: %w", op, r.Err())
	}
	return status, nil
}

// placeReadData checks READ's data, and copies them to the caller's memory
// unless the transport has placed them there.
func (c *Compound) placeReadData(res *nfs4.ReadRes) error {
	sink := c.x.Sink
	switch n := len(res.Data); {
	case n > len(sink):
		return replyError("READ: %d bytes, but %d were requested", n, len(sink))
	case n == 0:
		if len(sink) > 0 && !res.EOF {
			return replyError("READ: no data before the end of the file")
		}
		res.Data = sink[:0]
	default:
		if &res.Data[0] != &sink[0] {
			copy(sink, res.Data)
		}
		res.Data = sink[:n]
	}
	return nil
}
