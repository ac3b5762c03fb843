package nfs4test

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// An op is one COMPOUND operation: its arguments, and memory for its results.
type op struct {
	num  nfs4.Op
	args nfs4.Message
	res  nfs4.Message
}

// A reply holds the results of a COMPOUND.
type reply struct {
	status      nfs4.Status
	tag         []byte
	resultCount int
	lastOp      nfs4.Op // the operation of the last result
	raw         []byte  // the encoded results, with the status
}

// A raw message holds encoded arguments or results of any form. Decode consumes
// the rest of the message.
type raw []byte

func (m *raw) AppendTo(b []byte) []byte { return append(b, *m...) }

func (m *raw) Decode(r *xdr.Reader) { *m = slices.Clone(r.Fixed(r.Left())) }

// A compound holds the arguments of a COMPOUND.
type compound struct {
	tag   string
	minor uint32
	ops   []op
}

// encodeArgs returns the encoded arguments.
func (x *compound) encodeArgs() []byte {
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

// callCompound sends a COMPOUND with the run's minor version.
func (c *conn) callCompound(ops ...op) *reply { return c.callMinor(c.t.Minor, ops...) }

// callMinor sends a COMPOUND with the given minor version.
func (c *conn) callMinor(minor uint32, ops ...op) *reply {
	x := compound{tag: "a tag", minor: minor, ops: ops}
	stat, results, err := c.callProc(nfs4.ProcCompound, x.encodeArgs())
	require.NoError(c.t, err)
	require.EqualValues(c.t, rpcmsg.Success, stat, "accept_stat")
	rep := x.decodeResults(c.t, results)
	assert.Equal(c.t, x.tag, string(rep.tag), "RFC 8881, 16.2.3: the tag is returned")
	return rep
}

// decodeResults decodes the results into the res fields of x's operations.
func (x *compound) decodeResults(t *T, results []byte) *reply {
	r := xdr.NewReader(results)
	var head nfs4.CompoundRes
	head.Decode(&r)
	require.NoError(t, r.Err())
	require.LessOrEqual(t, int(head.N), len(x.ops), "more results than operations")
	rep := &reply{status: head.Status, tag: head.Tag, resultCount: int(head.N), raw: results}
	for i := range rep.resultCount {
		rep.lastOp = nfs4.Op(r.Uint32())
		if rep.lastOp == nfs4.OpIllegal {
			require.Equal(t, nfs4.ErrOpIllegal, nfs4.Status(r.Uint32()))
			break
		}
		require.Equal(t, x.ops[i].num, rep.lastOp, "RFC 8881, 16.2.3: results are in order")
		x.ops[i].res.Decode(&r)
		switch l := x.ops[i].res.(type) {
		case *listing:
			if l.Status == nfs4.OK {
				l.readEntries(&r)
			}
		case *contents:
			l.readSegments(&r)
		}
		require.NoError(t, r.Err(), "results of %s", rep.lastOp)
	}
	require.NoError(t, r.Done(), "bytes after the results")
	if t.Minor == nfs4.Minor0 {
		assert.True(t, rep.resultCount == 0 || Listed40(rep.lastOp, rep.status), "RFC 7530, 13.2: %s does not return %s", rep.lastOp, rep.status)
		return rep
	}
	assert.True(t, rep.resultCount == 0 || Listed(rep.lastOp, rep.status), "RFC 8881, 15.2: %s does not return %s", rep.lastOp, rep.status)
	return rep
}

// checkStatus asserts that a COMPOUND returned one of the statuses, after the given
// number of operations.
func (r *reply) checkStatus(t *T, ops int, want ...nfs4.Status) *reply {
	if !assert.Contains(t, want, r.status, "status of %s, operation %d of %d", r.lastOp, r.resultCount, ops) {
		t.FailNow()
	}
	if r.resultCount != ops && r.status != nfs4.ErrMinorVersMismatch {
		assert.Equal(t, ops, r.resultCount, "%s ended with %s", r.lastOp, r.status)
		t.FailNow()
	}
	return r
}

// replayable returns the results without the SEQUENCE fields that a server may
// recompute for a retry (RFC 8881, Section 2.10.6.1.1).
func (r *reply) replayable() []byte {
	const afterSequence = 8 + nfs4.SessionIDSize + 8 // operation, status, session, sequence ID and slot
	b := slices.Clone(r.raw)
	if from := nfs4.CompoundResLen(len(r.tag)) + afterSequence; r.resultCount > 0 && len(b) >= from+12 {
		clear(b[from : from+12])
	}
	return b
}
