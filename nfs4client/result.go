package nfs4client

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// begin reads the results up to the first operation.
func (c *Compound) begin(seq bool) error {
	r := &c.x.Results
	c.head.Decode(r)
	most := uint32(len(c.steps))
	if seq {
		most++
	}
	switch {
	case r.Err() != nil:
		return bad("COMPOUND: %w", r.Err())
	case len(c.head.Tag) != 0:
		return bad("COMPOUND: a tag of %d bytes that the call did not have", len(c.head.Tag))
	case c.head.N > most:
		return bad("COMPOUND: %d results of %d operations", c.head.N, most)
	case c.head.N == 0 && c.head.Status == nfs4.OK && most > 0:
		return bad("COMPOUND: NFS4_OK without results")
	case c.head.N == 0 && c.head.Status != nfs4.OK:
		return &Error{Status: c.head.Status}
	}
	return nil
}

// sequence reads the results of SEQUENCE. Its status may be an error.
func (c *Compound) sequence() (nfs4.Status, error) {
	status, err := c.result(0, nfs4.OpSequence, &c.seqRes)
	if err != nil || status != nfs4.OK {
		return status, err
	}
	if c.seqRes.Session != c.seq.Session || c.seqRes.Slot != c.seq.Slot || c.seqRes.Sequence != c.seq.Sequence {
		return status, bad("SEQUENCE: the result is that of slot %d, sequence ID %d, not of slot %d, sequence ID %d",
			c.seqRes.Slot, c.seqRes.Sequence, c.seq.Slot, c.seq.Sequence)
	}
	return status, nil
}

// rest reads the results of all operations but SEQUENCE; first is how many
// results have been read. It returns an Error if an operation failed. ran is
// the number of the Compound's steps that succeeded.
func (c *Compound) rest(first int) (ran int, err error) {
	for i := first; i < int(c.head.N); i++ {
		s := &c.steps[i-first]
		status, err := c.result(i, s.op, s.res)
		if err != nil {
			return ran, err
		}
		if status != nfs4.OK {
			if err := c.x.Results.Done(); err != nil {
				return ran, bad("%v: %w", s.op, err)
			}
			return ran, &Error{s.op, status}
		}
		if s.op == nfs4.OpRead {
			if err := c.place(s.res.(*nfs4.ReadRes)); err != nil {
				return ran, err
			}
		}
		ran++
	}
	if ran < len(c.steps) {
		return ran, bad("COMPOUND: NFS4_OK with results of %d of %d operations", ran, len(c.steps))
	}
	if err := c.x.Results.Done(); err != nil {
		return ran, bad("COMPOUND: %w", err)
	}
	return ran, nil
}

// result reads the i-th result, which must be that of op, into res.
func (c *Compound) result(i int, op nfs4.Op, res nfs4.Message) (nfs4.Status, error) {
	r := &c.x.Results
	got := nfs4.Op(r.Uint32())
	ahead := r.Rest()
	if r.Err() != nil || len(ahead) < 4 {
		return 0, bad("%v: %w", op, xdr.ErrShort)
	}
	status, last := nfs4.Status(binary.BigEndian.Uint32(ahead)), i+1 == int(c.head.N)
	switch {
	case got == nfs4.OpIllegal && op != got && status == nfs4.ErrOpIllegal && last && c.head.Status == status:
		r.Uint32()
		return status, nil
	case got != op:
		return 0, bad("result %d is that of %v, not of %v", i, got, op)
	case !last && status != nfs4.OK:
		return 0, bad("%v: results follow %v", op, status)
	case last && status != c.head.Status:
		return 0, bad("%v: %v, but COMPOUND: %v", op, status, c.head.Status)
	}
	if res.Decode(r); r.Err() != nil {
		return 0, bad("%v: %w", op, r.Err())
	}
	return status, nil
}

// place checks the data of a READ, and copies them to the caller's memory
// unless the transport has placed them there.
func (c *Compound) place(res *nfs4.ReadRes) error {
	sink := c.x.Sink
	switch n := len(res.Data); {
	case n > len(sink):
		return bad("READ: %d bytes, but %d were asked for", n, len(sink))
	case n == 0:
		if len(sink) > 0 && !res.EOF {
			return bad("READ: no data before the end of the file")
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
