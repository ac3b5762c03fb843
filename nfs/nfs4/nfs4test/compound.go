package nfs4test

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An op is one operation of a COMPOUND: its arguments, and memory for its
// results.
type op struct {
	num  nfs4.Op
	args nfs4.Message
	res  nfs4.Message
}

// A reply is the results of a COMPOUND.
type reply struct {
	status nfs4.Status
	tag    []byte
	n      int     // results
	last   nfs4.Op // the operation of the last one
	raw    []byte  // from the status on
}

// A raw message stands for arguments or results of any form. As results it takes
// the rest of the message.
type raw []byte

func (m *raw) AppendTo(b []byte) []byte { return append(b, *m...) }

func (m *raw) Decode(r *xdr.Reader) { *m = slices.Clone(r.Fixed(r.Left())) }

// A compound is the arguments of a COMPOUND.
type compound struct {
	tag   string
	minor uint32
	ops   []op
}

// encode returns the wire form.
func (x *compound) encode() []byte {
	head := nfs4.CompoundArgs{Tag: []byte(x.tag), Minor: x.minor, N: uint32(len(x.ops))}
	b := head.AppendTo(nil)
	for _, o := range x.ops {
		b = nfs4.AppendOp(b, o.num, o.args)
		if w, ok := o.args.(*nfs4.WriteArgs); ok {
			b = xdr.AppendFixed(b, w.Data)
		}
	}
	return b
}

// compound makes a COMPOUND of the run's minor version.
func (c *conn) compound(ops ...op) *reply { return c.compoundIn(c.t.Minor, ops...) }

// compoundIn makes a COMPOUND of a minor version.
func (c *conn) compoundIn(minor uint32, ops ...op) *reply {
	x := compound{tag: "a tag", minor: minor, ops: ops}
	stat, results, err := c.exchange(nfs4.ProcCompound, x.encode())
	require.NoError(c.t, err)
	require.EqualValues(c.t, rpcmsg.Success, stat, "accept_stat")
	rep := x.decode(c.t, results)
	assert.Equal(c.t, x.tag, string(rep.tag), "RFC 8881, 16.2.3: the tag is returned")
	return rep
}

// decode reads the results of x into the memory of its operations.
func (x *compound) decode(t *T, results []byte) *reply {
	r := xdr.NewReader(results)
	var head nfs4.CompoundRes
	head.Decode(&r)
	require.NoError(t, r.Err())
	require.LessOrEqual(t, int(head.N), len(x.ops), "more results than operations")
	rep := &reply{status: head.Status, tag: head.Tag, n: int(head.N), raw: results}
	for i := range rep.n {
		rep.last = nfs4.Op(r.Uint32())
		if rep.last == nfs4.OpIllegal {
			require.Equal(t, nfs4.ErrOpIllegal, nfs4.Status(r.Uint32()))
			break
		}
		require.Equal(t, x.ops[i].num, rep.last, "RFC 8881, 16.2.3: results are in order")
		x.ops[i].res.Decode(&r)
		switch l := x.ops[i].res.(type) {
		case *listing:
			if l.Status == nfs4.OK {
				l.read(&r)
			}
		case *contents:
			l.read(&r)
		}
		require.NoError(t, r.Err(), "results of %s", rep.last)
	}
	require.NoError(t, r.Done(), "bytes after the results")
	if t.Minor == nfs4.Minor0 {
		assert.True(t, rep.n == 0 || Listed40(rep.last, rep.status), "RFC 7530, 13.2: %s does not return %s", rep.last, rep.status)
		return rep
	}
	assert.True(t, rep.n == 0 || Listed(rep.last, rep.status), "RFC 8881, 15.2: %s does not return %s", rep.last, rep.status)
	return rep
}

// is asserts how a COMPOUND ended: if not with OK, its last operation must be
// the one with the status.
func (r *reply) is(t *T, ops int, want ...nfs4.Status) *reply {
	if !assert.Contains(t, want, r.status, "status of %s, operation %d of %d", r.last, r.n, ops) {
		t.FailNow()
	}
	if r.n != ops && r.status != nfs4.ErrMinorVersMismatch {
		assert.Equal(t, ops, r.n, "%s ended with %s", r.last, r.status)
		t.FailNow()
	}
	return r
}

// replayable returns the results without the fields of SEQUENCE that a server
// may compute anew for a retry (RFC 8881, Section 2.10.6.1.1).
func (r *reply) replayable() []byte {
	const afterSequence = 8 + nfs4.SessionIDSize + 8 // operation, status, session, sequence ID and slot
	b := slices.Clone(r.raw)
	if from := nfs4.CompoundResLen(len(r.tag)) + afterSequence; r.n > 0 && len(b) >= from+12 {
		clear(b[from : from+12])
	}
	return b
}
