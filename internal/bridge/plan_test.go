package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// planMessage plans a call as Serve does.
func planMessage(t testing.TB, msg []byte) (*oncrpc.Exchange, *oncrpc.Reply) {
	c, ok := oncrpc.ParseCall(msg)
	require.True(t, ok)
	x, rep := new(oncrpc.Exchange), &oncrpc.Reply{Lend: buf.Default.Get}
	planExchange(x, &c, msg, rep)
	return x, rep
}

// TestPlan checks the separate items of calls and the limits of replies
// (R8267-4-1, R8267-4.1-1, R8166-8.2.2.3-1), with messages of Linux's client.
func TestPlan(t *testing.T) {
	list := func(count uint32) []byte { return (&nfs3.ReadDirArgs{Count: count}).AppendTo(nil) }
	read := func(count uint32) []byte { return (&nfs3.ReadArgs{Count: count}).AppendTo(nil) }
	golden := func(name string) []byte { return wiretest.Hex(t, "../../nfs/nfs3/testdata/"+name+"-args.hex") }
	write := xdr.AppendFixed((&nfs3.WriteArgs{Data: make([]byte, 4098)}).AppendTo(nil), make([]byte, 4098))
	head := nfs3.MaxResult(nfs3.ProcRead, 0)
	for name, tt := range map[string]struct {
		prog, proc uint32
		args       []byte
		seal       bool
		item, sink int
		results    int
	}{
		"GETATTR":                    {nfs3.Program, nfs3.ProcGetAttr, golden("getattr"), false, 0, 0, nfs3.MaxResult(nfs3.ProcGetAttr, 0)},
		"READ":                       {nfs3.Program, nfs3.ProcRead, read(70001), false, 0, 70001, head},
		"READ of 0 bytes":            {nfs3.Program, nfs3.ProcRead, read(0), false, 0, 0, head},
		"READ beyond the end":        {nfs3.Program, nfs3.ProcRead, read(math.MaxUint32), false, 0, maxPayload, head},
		"READLINK":                   {nfs3.Program, nfs3.ProcReadLink, golden("getattr"), false, 0, nfs3.MaxPath, nfs3.MaxResult(nfs3.ProcReadLink, 0)},
		"WRITE":                      {nfs3.Program, nfs3.ProcWrite, write, false, 4098, 0, nfs3.MaxResult(nfs3.ProcWrite, 0)},
		"WRITE, its padding missing": {nfs3.Program, nfs3.ProcWrite, write[:len(write)-2], false, 0, 0, nfs3.MaxResult(nfs3.ProcWrite, 0)},
		"WRITE with more to follow":  {nfs3.Program, nfs3.ProcWrite, append(write, 0, 0, 0, 0), false, 0, 0, nfs3.MaxResult(nfs3.ProcWrite, 0)},
		"READDIR":                    {nfs3.Program, nfs3.ProcReadDir, list(9000), false, 0, 0, nfs3.MaxResult(nfs3.ProcReadDir, 9000)},
		"READDIR without end":        {nfs3.Program, nfs3.ProcReadDir, list(math.MaxUint32), false, 0, 0, maxPayload},
		"sealed READ":                {nfs3.Program, nfs3.ProcRead, read(100), true, 0, 0, head + sealedPayload + sealOverhead},
		"sealed WRITE":               {nfs3.Program, nfs3.ProcWrite, write, true, 0, 0, unknownResults},
		"MNT":                        {mount3.Program, mount3.ProcMnt, nil, false, 0, 0, mountResultsSize},
		"EXPORT":                     {mount3.Program, mount3.ProcExport, nil, false, 0, 0, maxList},
		"NFSACL, GETACL":             {100227, 1, nil, false, 0, 0, unknownResults},
	} {
		t.Run(name, func(t *testing.T) {
			msg := encodeCall(1, tt.prog, 3, tt.proc, tt.args)
			if tt.seal {
				withGSSCred(msg)
			}
			x, rep := planMessage(t, msg)
			defer rep.DropItem()
			assert.Len(t, x.Item, tt.item)
			assert.Len(t, x.Sink, tt.sink)
			assert.Equal(t, tt.results, x.MaxResults)
			if tt.sink > 0 {
				assert.Same(t, &rep.Item.B[0], &x.Sink[0], "data is sent from its placement")
			}
			if tt.item > 0 {
				at := bytes.Index(msg, x.Item)
				assert.Same(t, &msg[len(msg)-xdr.Pad(tt.item)-tt.item], &x.Item[0], at)
			}
		})
	}
	assert.Zero(t, buf.Default.Out())
}

// FuzzPlan checks that the parts of any client's call make up the call, and
// that the memory lent for its reply is bounded.
func FuzzPlan(f *testing.F) {
	for _, name := range []string{"write", "symlink", "read", "readdir", "readdirplus", "getattr", "create"} {
		args := wiretest.Hex(f, "../../nfs/nfs3/testdata/"+name+"-args.hex")
		for proc := range uint32(nfs3.NumProc) {
			f.Add(encodeCall(1, nfs3.Program, 3, proc, args))
		}
	}
	for _, msg := range testCalls(nfs3.FH("root")) {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, ok := oncrpc.ParseCall(msg)
		if !ok {
			return
		}
		x, rep := new(oncrpc.Exchange), new(oncrpc.Reply)
		planExchange(x, &c, msg, rep)
		defer rep.DropItem()
		whole := append(append(msg[:4:4], x.Args...), x.Item...)
		whole = append(whole, msg[len(msg)-xdr.Pad(len(x.Item)):]...)
		require.Equal(t, msg, whole)
		require.Nil(t, x.Tail)
		require.LessOrEqual(t, len(x.Sink), maxPayload)
		require.GreaterOrEqual(t, x.MaxResults, 0)
		require.LessOrEqual(t, x.MaxResults, maxPayload)
		if n := len(x.Item); n > 0 {
			require.EqualValues(t, n, binary.BigEndian.Uint32(x.Args[len(x.Args)-4:]))
		}
	})
}

// A fakeCaller answers each call with the same reply.
type fakeCaller struct {
	reply  []byte
	placed int
}

func (c fakeCaller) Call(_ context.Context, x *oncrpc.Exchange) error {
	x.Lent = buf.Default.Get(len(c.reply))
	copy(x.Lent.B, c.reply)
	x.Reply, x.Placed = x.Lent.B, c.placed
	return nil
}

// acceptedReply returns a reply to call 0 that reports execution.
func acceptedReply(results []byte) []byte {
	return append([]byte{0, 0, 0, 0, 0, 0, 0, 1, 19: 0, 23: 0}, results...)
}

// serveOnce returns a Bridge's reply to msg, and whether it must not be replayed.
func serveOnce(t *testing.T, c fakeCaller, msg []byte) (*oncrpc.Reply, bool) {
	b := &Bridge{NFS: c, Log: slog.New(slog.DiscardHandler)}
	rep := new(oncrpc.Reply)
	cut := false
	peer := &oncrpc.Peer{Cut: func(error) { cut = true }}
	require.True(t, b.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: peer}, rep))
	assert.False(t, cut)
	return rep, rep.NoReplay
}

// TestDeliver checks that the server's reply arrives in each possible form, and
// that an invalid reply gives no result.
func TestDeliver(t *testing.T) {
	read := encodeCall(77, nfs3.Program, 3, nfs3.ProcRead, (&nfs3.ReadArgs{Count: 7}).AppendTo(nil))
	res := func(n uint32) []byte { return acceptedReply((&nfs3.ReadRes{Count: n}).AppendTo(nil)) }
	failed := oncrpc.AppendSystemErr(nil, 77)
	for name, tt := range map[string]struct {
		fakeCaller
		item   int  // length of the reply's item
		fails  bool // SYSTEM_ERR
		replay bool // may be kept for a retransmission
	}{
		"placed":               {fakeCaller{res(7), 7}, 7, false, true},
		"placed, fewer bytes":  {fakeCaller{res(5), 5}, 5, false, true},
		"with some padding":    {fakeCaller{res(5), 6}, 5, false, true},
		"with all padding":     {fakeCaller{res(5), 7}, 5, false, true},
		"inline":               {fakeCaller{append(res(5), randomBytes(8, 1)...), 0}, 0, false, true},
		"failed":               {fakeCaller{acceptedReply((&nfs3.ReadRes{Status: nfs3.ErrIO}).AppendTo(nil)), 0}, 0, false, true},
		"postponed":            {fakeCaller{acceptedReply((&nfs3.ReadRes{Status: nfs3.ErrJukebox}).AppendTo(nil)), 0}, 0, false, false},
		"refused":              {fakeCaller{oncrpc.AppendSystemErr(nil, 0), 0}, 0, false, false},
		"long":                 {fakeCaller{append(res(5000), make([]byte, 5000)...), 0}, 5000 + len(res(0)), false, true},
		"more than was placed": {fakeCaller{res(7), 6}, 0, true, false},
		"less than was placed": {fakeCaller{res(3), 7}, 0, true, false},
		"an absurd length":     {fakeCaller{res(math.MaxUint32), 7}, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			rep, noReplay := serveOnce(t, tt.fakeCaller, read)
			defer rep.DropItem()
			assert.Equal(t, tt.replay, !noReplay)
			if tt.fails {
				assert.Equal(t, failed, rep.Head)
				assert.Nil(t, rep.Item)
				return
			}
			head := rep.Head
			if tt.item == 0 {
				assert.Nil(t, rep.Item)
			} else {
				require.Len(t, rep.Item.B, tt.item)
				if tt.placed == 0 {
					head = append(head, rep.Item.B...)
				}
			}
			assert.Equal(t, append([]byte{0, 0, 0, 77}, tt.reply[4:]...), head)
		})
	}
	assert.Zero(t, buf.Default.Out())
}

// TestRelayAllocatesNothing checks GETATTR and READ.
func TestRelayAllocatesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fakeCaller
		msg []byte
	}{
		"GETATTR": {fakeCaller{acceptedReply(make([]byte, 88)), 0}, encodeCall(1, nfs3.Program, 3, nfs3.ProcGetAttr, nfs3.FH("file").AppendTo(nil))},
		"READ": {
			fakeCaller{acceptedReply((&nfs3.ReadRes{Count: 70000}).AppendTo(nil)), 70000},
			encodeCall(1, nfs3.Program, 3, nfs3.ProcRead, (&nfs3.ReadArgs{Count: 70000}).AppendTo(nil)),
		},
	} {
		b, rep := &Bridge{NFS: tt.fakeCaller}, &oncrpc.Reply{Head: make([]byte, 0, 512)}
		req := &oncrpc.Request{Msg: tt.msg}
		ctx := context.Background()
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if !b.Serve(ctx, req, rep) {
				t.Fatal("no answer")
			}
			rep.DropItem()
			rep.Head = rep.Head[:0]
		}), racetest.PoolLosses(2), name)
	}
}
