package nfs4client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A puppet is a server that answers as the test wants: it makes a session
// honestly, and passes later calls to answer.
type puppet struct {
	mu      sync.Mutex
	answer  func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte
	setup   map[nfs4.Op]nfs4.Message // results in place of the honest ones
	created int
}

var errNoAnswer = errors.New("the puppet has no answer")

func (p *puppet) Close() error { return nil }

// Call implements oncrpc.Caller.
func (p *puppet) Call(_ context.Context, x *oncrpc.Exchange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := xdr.NewReader(x.Args)
	var head nfs4.CompoundArgs
	head.Decode(&r)
	op := nfs4.Op(r.Uint32())
	if op != nfs4.OpSequence {
		x.Results = xdr.NewReader(p.single(op))
		return nil
	}
	var seq nfs4.SequenceArgs
	seq.Decode(&r)
	var b []byte
	switch {
	case p.answer != nil:
		b = p.answer(&seq, x)
	case head.N == 2: // RECLAIM_COMPLETE
		b = ok(&seq, result(nfs4.OpReclaimComplete, &nfs4.StatusRes{}))
	default:
		res := nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrLeaseTime), LeaseTime: 90}}
		b = ok(&seq, result(nfs4.OpPutRootFH, &nfs4.StatusRes{}), result(nfs4.OpGetAttr, &res))
	}
	if b == nil {
		return errNoAnswer
	}
	x.Results = xdr.NewReader(b)
	return nil
}

// single answers an operation without SEQUENCE.
func (p *puppet) single(op nfs4.Op) []byte {
	var res nfs4.Message = &nfs4.StatusRes{}
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 4096, MaxOperations: 16, MaxRequests: 2}
	switch {
	case p.setup[op] != nil:
		res = p.setup[op]
	case op == nfs4.OpExchangeID:
		res = &nfs4.ExchangeIDRes{ClientID: 5, SequenceID: 9, Flags: nfs4.ExchangeUseNonPNFS}
	case op == nfs4.OpCreateSession:
		p.created++
		res = &nfs4.CreateSessionRes{Session: nfs4.SessionID{byte(p.created)}, Sequence: 9, Fore: ch, Back: ch}
	}
	st := nfs4.OK
	if created, is := res.(*nfs4.CreateSessionRes); is {
		st = created.Status
	}
	return reply(st, result(op, res))
}

func (p *puppet) set(answer func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *puppet) dial() (*Session, error) {
	return Dial(context.Background(), Config{
		Dial: func(context.Context) (Conn, error) { return p, nil }, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler),
	})
}

// session makes a Session with the puppet.
func (p *puppet) session(t testing.TB) *Session {
	t.Helper()
	s, err := p.dial()
	require.NoError(t, err)
	closeLater(t, s)
	return s
}

// result is one operation's results, with its number.
func result(op nfs4.Op, res nfs4.Message) []byte { return nfs4.AppendOp(nil, op, res) }

// failed is the results of an operation with a status alone.
func failed(op nfs4.Op, st nfs4.Status) []byte { return result(op, &nfs4.StatusRes{Status: st}) }

// reply is a COMPOUND's results.
func reply(st nfs4.Status, results ...[]byte) []byte {
	head := nfs4.CompoundRes{Status: st, N: uint32(len(results))}
	b := head.AppendTo(nil)
	for _, r := range results {
		b = append(b, r...)
	}
	return b
}

// ok is a COMPOUND's results with SEQUENCE's in front.
func ok(seq *nfs4.SequenceArgs, results ...[]byte) []byte { return then(seq, nfs4.OK, results...) }

func then(seq *nfs4.SequenceArgs, st nfs4.Status, results ...[]byte) []byte {
	res := nfs4.SequenceRes{Session: seq.Session, Sequence: seq.Sequence, Slot: seq.Slot, HighestSlotID: 1, TargetHighestSlotID: 1}
	return reply(st, append([][]byte{result(nfs4.OpSequence, &res)}, results...)...)
}

// TestLies gives replies that no server may give, to PUTFH and GETATTR of the
// size.
func TestLies(t *testing.T) {
	put := failed(nfs4.OpPutFH, nfs4.OK)
	size := result(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 3}})
	more := result(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode)}})
	for name, tt := range map[string]struct {
		answer func(seq *nfs4.SequenceArgs) []byte
		want   string
	}{
		"nothing":    {func(*nfs4.SequenceArgs) []byte { return []byte{} }, "too short"},
		"no results": {func(*nfs4.SequenceArgs) []byte { return reply(nfs4.OK) }, "without results"},
		"other tag": {func(*nfs4.SequenceArgs) []byte {
			return xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(nil, 0), "tag"), 0)
		}, "tag"},
		"too many results":   {func(s *nfs4.SequenceArgs) []byte { return ok(s, put, size, size) }, "4 results of 3"},
		"too few":            {func(s *nfs4.SequenceArgs) []byte { return ok(s, put) }, "1 of 2"},
		"in another order":   {func(s *nfs4.SequenceArgs) []byte { return ok(s, size, put) }, "that of GETATTR, not of PUTFH"},
		"undefined":          {func(s *nfs4.SequenceArgs) []byte { return ok(s, failed(1000, 0), size) }, "nfs_opnum4(1000)"},
		"ILLEGAL without it": {func(s *nfs4.SequenceArgs) []byte { return ok(s, failed(nfs4.OpIllegal, nfs4.OK)) }, "that of ILLEGAL"},
		"two statuses":       {func(s *nfs4.SequenceArgs) []byte { return ok(s, put, failed(nfs4.OpGetAttr, nfs4.ErrIO)) }, "GETATTR: NFS4ERR_IO, but COMPOUND"},
		"failure, but no":    {func(s *nfs4.SequenceArgs) []byte { return then(s, nfs4.ErrIO, put, size) }, "GETATTR: NFS4_OK, but COMPOUND"},
		"on after a failure": {func(s *nfs4.SequenceArgs) []byte { return ok(s, failed(nfs4.OpPutFH, nfs4.ErrStale), size) }, "results follow NFS4ERR_STALE"},
		"cut":                {func(s *nfs4.SequenceArgs) []byte { b := ok(s, put, size); return b[:len(b)-4] }, "too short"},
		"too long":           {func(s *nfs4.SequenceArgs) []byte { return append(ok(s, put, size), 0, 0, 0, 0) }, "after the last item"},
		"unasked attributes": {func(s *nfs4.SequenceArgs) []byte { return ok(s, put, more) }, "not asked for"},
		"another slot": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Slot++
			return ok(&wrong, put, size)
		}, "not of slot"},
		"another session": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Session[5]++
			return ok(&wrong, put, size)
		}, "not of slot"},
		"another sequence": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Sequence++
			return ok(&wrong, put, size)
		}, "not of slot"},
		"no session, ever": {func(s *nfs4.SequenceArgs) []byte {
			return reply(nfs4.ErrBadSession, failed(nfs4.OpSequence, nfs4.ErrBadSession))
		}, "8 sessions in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			var p puppet
			s := p.session(t)
			p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return tt.answer(seq) })
			_, err := s.GetAttr(t.Context(), nfs4.FH("h"), nfs4.BitmapOf(nfs4.AttrSize))
			assert.ErrorIs(t, err, ErrReply)
			assert.ErrorContains(t, err, tt.want)
			p.set(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
				if len(x.Args) == frontLen { // the probe
					return reply(nfs4.ErrSeqFalseRetry, failed(nfs4.OpSequence, nfs4.ErrSeqFalseRetry))
				}
				return ok(seq, put, size)
			})
			a, err := s.GetAttr(t.Context(), nfs4.FH("h"), nfs4.BitmapOf(nfs4.AttrSize))
			assert.NoError(t, err, "the session goes on")
			assert.EqualValues(t, 3, a.Size)
		})
	}
}

// TestDataLies gives impossible results to operations with data.
func TestDataLies(t *testing.T) {
	put := failed(nfs4.OpPutFH, nfs4.OK)
	read := func(n int, eof bool) []byte {
		return xdr.AppendFixed(result(nfs4.OpRead, &nfs4.ReadRes{EOF: eof, Count: uint32(n)}), make([]byte, n))
	}
	wrote := func(n uint32, how nfs4.Stable) []byte {
		return result(nfs4.OpWrite, &nfs4.WriteRes{Count: n, Committed: how})
	}
	list := func(entries int, cookie uint64, eof bool) []byte {
		w := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
		for range entries {
			w.Add(&nfs4.DirEntry{Cookie: cookie, Name: []byte("n")})
		}
		return w.Finish(nfs4.Verifier{}, eof)
	}
	var p puppet
	s := p.session(t)
	f := &File{s: s, fh: nfs4.FH("h")}
	readAt := func() error { _, err := f.ReadAt(t.Context(), make([]byte, 8), 0); return err }
	writeAt := func() error { _, err := f.WriteAt(t.Context(), make([]byte, 8), 0, nfs4.DataSync); return err }
	readDir := func() (err error) {
		for _, e := range s.ReadDir(t.Context(), nfs4.FH("h"), nfs4.Bitmap{}) {
			err = e
		}
		return err
	}
	for name, tt := range map[string]struct {
		result []byte
		call   func() error
		want   string
	}{
		"more data than asked": {read(9, false), readAt, "9 bytes, but 8"},
		"no data":              {read(0, false), readAt, "no data before the end"},
		"length without data":  {result(nfs4.OpRead, &nfs4.ReadRes{Count: 8}), readAt, "too short"},
		"more written":         {wrote(9, nfs4.FileSync), writeAt, "9 bytes written of 8"},
		"nothing written":      {wrote(0, nfs4.FileSync), writeAt, "nothing was written"},
		"less stable":          {wrote(8, nfs4.Unstable), writeAt, "stable_how4 0"},
		"empty, but no end":    {list(0, 0, false), readDir, "no entries before the end"},
		"the same cookie":      {list(1, 0, false), readDir, "cookie with which the list began"},
	} {
		t.Run(name, func(t *testing.T) {
			p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return ok(seq, put, tt.result) })
			err := tt.call()
			assert.ErrorIs(t, err, ErrReply)
			assert.ErrorContains(t, err, tt.want)
		})
	}
	p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return ok(seq, put, read(3, false)) })
	b := make([]byte, 8)
	n, err := f.ReadAt(t.Context(), b, 0)
	assert.NoError(t, err, "a short READ is allowed")
	assert.Equal(t, 3, n)
}

// TestPutOff checks which calls are repeated after NFS4ERR_DELAY.
//
// R8881-15.1.1.3-1, R8881-15.1.1.3-2.
func TestPutOff(t *testing.T) {
	var p puppet
	s := p.session(t)
	put := failed(nfs4.OpPutFH, nfs4.OK)
	calls := 0
	var ids []uint32
	p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		ids = append(ids, seq.Sequence)
		switch calls++; calls {
		case 1:
			return reply(nfs4.ErrDelay, failed(nfs4.OpSequence, nfs4.ErrDelay))
		case 2:
			return then(seq, nfs4.ErrDelay, put, failed(nfs4.OpRemove, nfs4.ErrDelay))
		case 3:
			return then(seq, nfs4.ErrGrace, put, failed(nfs4.OpRemove, nfs4.ErrGrace))
		}
		return ok(seq, put, result(nfs4.OpRemove, &nfs4.ChangeRes{}))
	})
	require.NoError(t, s.Remove(t.Context(), nfs4.FH("h"), "n"))
	assert.Equal(t, 4, calls)
	assert.Equal(t, []uint32{ids[0], ids[0], ids[0] + 1, ids[0] + 2}, ids, "the same only after an error of SEQUENCE")
	p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { // after the change
		return then(seq, nfs4.ErrDelay, put, result(nfs4.OpCreate, &nfs4.CreateRes{}), failed(nfs4.OpGetFH, nfs4.ErrDelay))
	})
	_, err := s.Mkdir(t.Context(), nfs4.FH("h"), "n", 0)
	assert.ErrorIs(t, err, nfs4.ErrDelay)
}

// TestPutOffAnywhere puts off each operation of each method: the call is made
// again, unless it has changed something before.
//
// R8881-15.1.1.3-2.
func TestPutOffAnywhere(t *testing.T) {
	put, fh := failed(nfs4.OpPutFH, nfs4.OK), result(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")})
	list := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
	var p puppet
	s := p.session(t)
	ctx, dir := t.Context(), nfs4.FH("dir")
	file := func() *File { return &File{s: s, fh: nfs4.FH("h")} }
	for name, tt := range map[string]struct {
		results [][]byte // of the operations after SEQUENCE
		call    func() error
	}{
		"Open": {[][]byte{put, result(nfs4.OpOpen, &nfs4.OpenRes{}), fh}, func() error {
			_, err := s.Open(ctx, dir, "n", OpenFlags{Read: true})
			return err
		}},
		"ReadAt": {[][]byte{put, result(nfs4.OpRead, &nfs4.ReadRes{EOF: true})}, func() error {
			_, err := file().ReadAt(ctx, make([]byte, 8), 0)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}},
		"WriteAt": {[][]byte{put, result(nfs4.OpWrite, &nfs4.WriteRes{Count: 8})}, func() error {
			_, err := file().WriteAt(ctx, make([]byte, 8), 0, nfs4.Unstable)
			return err
		}},
		"Commit": {[][]byte{put, result(nfs4.OpCommit, &nfs4.CommitRes{})}, func() error {
			_, err := file().Commit(ctx)
			return err
		}},
		"Truncate": {[][]byte{put, result(nfs4.OpSetAttr, &nfs4.SetAttrRes{})}, func() error { return file().Truncate(ctx, 1) }},
		"Close":    {[][]byte{put, result(nfs4.OpClose, &nfs4.StateIDRes{})}, func() error { return file().Close(ctx) }},
		"Walk": {[][]byte{failed(nfs4.OpPutRootFH, nfs4.OK), failed(nfs4.OpLookup, nfs4.OK), fh}, func() error {
			_, err := s.Walk(ctx, "n")
			return err
		}},
		"GetAttr": {[][]byte{put, result(nfs4.OpGetAttr, &nfs4.GetAttrRes{})}, func() error {
			_, err := s.GetAttr(ctx, dir, nfs4.Bitmap{})
			return err
		}},
		"Access": {[][]byte{put, result(nfs4.OpAccess, &nfs4.AccessRes{})}, func() error {
			_, err := s.Access(ctx, dir, 1)
			return err
		}},
		"SetAttr": {[][]byte{put, result(nfs4.OpSetAttr, &nfs4.SetAttrRes{})}, func() error { return s.SetAttr(ctx, dir, &nfs4.Attrs{}) }},
		"Mkdir": {[][]byte{put, result(nfs4.OpCreate, &nfs4.CreateRes{}), fh}, func() error {
			_, err := s.Mkdir(ctx, dir, "n", 0)
			return err
		}},
		"Remove": {[][]byte{put, result(nfs4.OpRemove, &nfs4.ChangeRes{})}, func() error { return s.Remove(ctx, dir, "n") }},
		"Rename": {[][]byte{put, failed(nfs4.OpSaveFH, nfs4.OK), put, result(nfs4.OpRename, &nfs4.RenameRes{})}, func() error {
			return s.Rename(ctx, dir, "n", dir, "m")
		}},
		"ReadDir": {[][]byte{put, list.Finish(nfs4.Verifier{}, true)}, func() (err error) {
			for _, e := range s.ReadDir(ctx, dir, nfs4.Bitmap{}) {
				err = e
			}
			return err
		}},
	} {
		for at, off := range tt.results {
			op := nfs4.Op(binary.BigEndian.Uint32(off))
			delayed := failed(op, nfs4.ErrDelay)
			if op == nfs4.OpSetAttr {
				delayed = result(op, &nfs4.SetAttrRes{Status: nfs4.ErrDelay})
			}
			calls := 0
			p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
				if calls++; calls == 1 {
					return then(seq, nfs4.ErrDelay, append(slices.Clone(tt.results[:at]), delayed)...)
				}
				return ok(seq, tt.results...)
			})
			if err := tt.call(); at > 0 && op == nfs4.OpGetFH && name != "Walk" {
				assert.ErrorIs(t, err, nfs4.ErrDelay, "%s: GETFH after the change", name)
				assert.Equal(t, 1, calls)
			} else {
				assert.NoError(t, err, "%s: %v", name, op)
				assert.Equal(t, 2, calls)
			}
		}
	}
	p.set(nil)
}

// TestUncertain loses the session together with a connection: a change fails,
// and a call that changes nothing is repeated.
func TestUncertain(t *testing.T) {
	var p puppet
	s := p.session(t)
	put := failed(nfs4.OpPutFH, nfs4.OK)
	lose := func() {
		cut := &cutOnce{puppet: &p}
		s.redialer.live.Store(&liveConn{Conn: cut})
		calls := 0
		p.set(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
			if calls++; calls == 1 {
				return reply(nfs4.ErrBadSession, failed(nfs4.OpSequence, nfs4.ErrBadSession))
			}
			return ok(seq, put, result(nfs4.OpAccess, &nfs4.AccessRes{Supported: 1, Access: 1}))
		})
	}
	lose()
	got, err := s.Access(t.Context(), nfs4.FH("h"), 1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, got)
	lose()
	assert.ErrorIs(t, s.Remove(t.Context(), nfs4.FH("h"), "n"), ErrUncertain)
	_, err = s.Access(t.Context(), nfs4.FH("h"), 1)
	assert.NoError(t, err)
}

// TestCloseUncertain loses the session with each of several repetitions of a CLOSE:
// Close goes on until the server says that the file is closed.
func TestCloseUncertain(t *testing.T) {
	const losses = 3
	var p puppet
	s := p.session(t)
	f := s.newFile(OpenFlags{Write: true})
	f.fh, f.id, f.epoch = nfs4.FH("h"), nfs4.StateID{SeqID: 1, Other: [12]byte{1}}, s.now.Load().epoch
	require.True(t, s.register(f))
	answers := 0
	p.set(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		if answers++; answers <= losses {
			s.redialer.live.Store(nil)
			return reply(nfs4.ErrBadSession, failed(nfs4.OpSequence, nfs4.ErrBadSession))
		}
		return then(seq, nfs4.ErrBadStateID, failed(nfs4.OpPutFH, nfs4.OK), failed(nfs4.OpClose, nfs4.ErrBadStateID))
	})
	s.redialer.live.Store(nil)
	dials := 0
	s.redialer.dial = func(context.Context) (Conn, error) { // each second connection is lost with a call
		if dials++; dials%2 == 1 {
			return &cutCall{puppet: &p}, nil
		}
		return &p, nil
	}
	assert.NoError(t, f.Close(t.Context()))
	assert.Equal(t, losses+1, answers)
	p.set(nil)
	s.redialer.dial = func(context.Context) (Conn, error) { return &p, nil }
}

// A cutCall loses a call of a session with its connection.
type cutCall struct{ *puppet }

func (c *cutCall) Call(ctx context.Context, x *oncrpc.Exchange) error {
	r := xdr.NewReader(x.Args)
	var head nfs4.CompoundArgs
	if head.Decode(&r); nfs4.Op(r.Uint32()) == nfs4.OpSequence {
		return oncrpc.ErrClosed
	}
	return c.puppet.Call(ctx, x)
}

// A cutOnce loses a call with its connection.
type cutOnce struct{ *puppet }

func (*cutOnce) Call(context.Context, *oncrpc.Exchange) error { return oncrpc.ErrClosed }

// TestSetupLies gives impossible results to EXCHANGE_ID and CREATE_SESSION.
func TestSetupLies(t *testing.T) {
	for name, tt := range map[string]struct {
		op   nfs4.Op
		res  nfs4.Message
		want error
	}{
		"state protection": {nfs4.OpExchangeID, &nfs4.ExchangeIDRes{Protect: nfs4.StateProtect{How: nfs4.ProtectMachCred}}, ErrReply},
		"no slots":         {nfs4.OpCreateSession, &nfs4.CreateSessionRes{}, ErrReply},
		"tiny messages": {nfs4.OpCreateSession, &nfs4.CreateSessionRes{
			Fore: nfs4.ChannelAttrs{MaxRequests: 1, MaxOperations: 8, MaxRequestSize: 100, MaxResponseSize: 100},
		}, ErrReply},
	} {
		t.Run(name, func(t *testing.T) {
			p := puppet{setup: map[nfs4.Op]nfs4.Message{tt.op: tt.res}}
			_, err := p.dial()
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

// FuzzReply gives any reply to calls of several forms.
func FuzzReply(f *testing.F) {
	seq := &nfs4.SequenceArgs{Sequence: 1}
	put := failed(nfs4.OpPutFH, nfs4.OK)
	w := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
	w.Add(&nfs4.DirEntry{Cookie: 1, Name: []byte("n"), Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrType), Type: nfs4.TypeDir}})
	for _, b := range [][]byte{
		ok(seq, put, xdr.AppendFixed(result(nfs4.OpRead, &nfs4.ReadRes{EOF: true, Count: 5}), []byte("hello"))),
		ok(seq, put, w.Finish(nfs4.Verifier{}, true)),
		ok(seq, put, result(nfs4.OpOpen, &nfs4.OpenRes{}), result(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")})),
		ok(seq, put, result(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("o")}})),
		then(seq, nfs4.ErrIO, failed(nfs4.OpPutFH, nfs4.ErrIO)),
		reply(nfs4.ErrBadSession, failed(nfs4.OpSequence, nfs4.ErrBadSession)),
		reply(nfs4.ErrMinorVersMismatch),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p puppet
		s := p.session(t)
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := s.GetAttr(ctx, nfs4.FH("h"), nfs4.Known); return err },
			func(ctx context.Context) error {
				_, err := (&File{s: s, fh: nfs4.FH("h")}).ReadAt(ctx, make([]byte, 16), 0)
				return err
			},
			func(ctx context.Context) error {
				_, err := s.Open(ctx, nfs4.FH("h"), "n", OpenFlags{Read: true})
				return err
			},
			func(ctx context.Context) error { _, err := s.page(ctx, nfs4.FH("h"), &nfs4.ReadDirArgs{}); return err },
		} {
			g := s.now.Load()
			seq.Session = g.id
			first := true
			p.set(func(*nfs4.SequenceArgs, *oncrpc.Exchange) []byte {
				if !first {
					return nil
				}
				first = false
				return b
			})
			_ = call(t.Context())
		}
		p.set(nil)
	})
}
