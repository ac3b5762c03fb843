package nfs4client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A fakeConstantConn replies without allocations: each reply is the given
// results after SEQUENCE's.
type fakeConstantConn struct {
	seq     nfs4.SequenceRes
	b, rest []byte
	n       uint32
}

func (s *fakeConstantConn) Close() error { return nil }

func (s *fakeConstantConn) Call(_ context.Context, x *oncrpc.Exchange) error {
	r := xdr.NewReader(x.Args[headLen+4:])
	s.seq.Session.Decode(&r)
	s.seq.Sequence, s.seq.Slot = r.Uint32(), r.Uint32()
	head := nfs4.CompoundRes{N: s.n}
	s.b = nfs4.AppendOp(head.AppendTo(s.b[:0]), nfs4.OpSequence, &s.seq)
	s.b = append(s.b, s.rest...)
	x.Results = xdr.NewReader(s.b)
	return nil
}

// TestAllocs checks that READ, WRITE and GETATTR do not allocate.
func TestAllocs(t *testing.T) {
	var p fakeServer
	s := p.newSession(t)
	was := s.redialer.current.Load()
	defer s.redialer.current.Store(was)
	ctx := context.Background()
	f := &File{session: s, fh: nfs4.FH("handle")}
	b := make([]byte, 4096)
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	for name, tt := range map[string]struct {
		result []byte
		call   func() error
	}{
		"READ": {
			xdr.AppendFixed(encodeResult(nfs4.OpRead, &nfs4.ReadRes{Count: 4096}), b),
			func() error { _, err := f.ReadAt(ctx, b, 0); return err },
		},
		"WRITE": {
			encodeResult(nfs4.OpWrite, &nfs4.WriteRes{Count: 4096}),
			func() error { _, err := f.WriteAt(ctx, b, 0, nfs4.Unstable); return err },
		},
		"GETATTR": {
			encodeResult(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}}),
			func() error { _, err := s.GetAttr(ctx, f.fh, nfs4.BitmapOf(nfs4.AttrSize)); return err },
		},
	} {
		s.redialer.current.Store(&liveConn{Conn: &fakeConstantConn{rest: append(put[:len(put):len(put)], tt.result...), n: 3}})
		var err error
		n := testing.AllocsPerRun(100, func() { err = tt.call() })
		assert.NoError(t, err)
		assert.LessOrEqual(t, n, racetest.PoolLosses(4), name)
	}
}
