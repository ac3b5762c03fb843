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
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A fakeServer creates a session correctly, and passes later calls to the
// test's function answer.
type fakeServer struct {
	mu      sync.Mutex
	answer  func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte
	setup   map[nfs4.Op]nfs4.Message // replacement results
	created int
}

var errNoAnswer = errors.New("the fake server has no answer")

func (p *fakeServer) Close() error { return nil }

// Call implements oncrpc.Caller.
func (p *fakeServer) Call(_ context.Context, x *oncrpc.Exchange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := xdr.NewReader(x.Args)
	var head nfs4.CompoundArgs
	head.Decode(&r)
	op := nfs4.Op(r.Uint32())
	if op != nfs4.OpSequence {
		x.Results = xdr.NewReader(p.serveSingle(op))
		return nil
	}
	var seq nfs4.SequenceArgs
	seq.Decode(&r)
	var b []byte
	switch {
	case p.answer != nil:
		b = p.answer(&seq, x)
	case head.N == 2: // RECLAIM_COMPLETE
		b = encodeSequenceOK(&seq, encodeResult(nfs4.OpReclaimComplete, &nfs4.StatusRes{}))
	default:
		res := nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrLeaseTime), LeaseTime: 90}}
		b = encodeSequenceOK(&seq, encodeResult(nfs4.OpPutRootFH, &nfs4.StatusRes{}), encodeResult(nfs4.OpGetAttr, &res))
	}
	if b == nil {
		return errNoAnswer
	}
	x.Results = xdr.NewReader(b)
	return nil
}

// serveSingle replies to an operation without SEQUENCE.
func (p *fakeServer) serveSingle(op nfs4.Op) []byte {
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
	return encodeReply(st, encodeResult(op, res))
}

func (p *fakeServer) setAnswer(answer func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *fakeServer) dialServer() (*Session, error) {
	return Dial(context.Background(), Config{
		Dial: func(context.Context) (Conn, error) { return p, nil }, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler),
	})
}

// newSession creates a Session with the fake server.
func (p *fakeServer) newSession(t testing.TB) *Session {
	t.Helper()
	s, err := p.dialServer()
	require.NoError(t, err)
	closeLater(t, s)
	return s
}

// encodeResult returns one operation's results, with its number.
func encodeResult(op nfs4.Op, res nfs4.Message) []byte { return nfs4.AppendOp(nil, op, res) }

// encodeFailure returns an operation's results that consist of a status.
func encodeFailure(op nfs4.Op, st nfs4.Status) []byte {
	return encodeResult(op, &nfs4.StatusRes{Status: st})
}

// encodeReply returns a COMPOUND's results.
func encodeReply(st nfs4.Status, results ...[]byte) []byte {
	head := nfs4.CompoundRes{Status: st, N: uint32(len(results))}
	b := head.AppendTo(nil)
	for _, r := range results {
		b = append(b, r...)
	}
	return b
}

// encodeSequenceOK returns a successful COMPOUND's results, with SEQUENCE's
// first.
func encodeSequenceOK(seq *nfs4.SequenceArgs, results ...[]byte) []byte {
	return encodeSequenced(seq, nfs4.OK, results...)
}

func encodeSequenced(seq *nfs4.SequenceArgs, st nfs4.Status, results ...[]byte) []byte {
	res := nfs4.SequenceRes{Session: seq.Session, Sequence: seq.Sequence, Slot: seq.Slot, HighestSlotID: 1, TargetHighestSlotID: 1}
	return encodeReply(st, append([][]byte{encodeResult(nfs4.OpSequence, &res)}, results...)...)
}

// TestLies sends replies that no server may send, to PUTFH and GETATTR (size).
func TestLies(t *testing.T) {
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	size := encodeResult(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 3}})
	more := encodeResult(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode)}})
	for name, tt := range map[string]struct {
		answer func(seq *nfs4.SequenceArgs) []byte
		want   string
	}{
		"nothing":    {func(*nfs4.SequenceArgs) []byte { return []byte{} }, "too short"},
		"no results": {func(*nfs4.SequenceArgs) []byte { return encodeReply(nfs4.OK) }, "without results"},
		"other tag": {func(*nfs4.SequenceArgs) []byte {
			return xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(nil, 0), "tag"), 0)
		}, "tag"},
		"too many results":   {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, put, size, size) }, "4 results for 3"},
		"too few":            {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, put) }, "1 of 2"},
		"in another order":   {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, size, put) }, "for GETATTR, not for PUTFH"},
		"undefined":          {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, encodeFailure(1000, 0), size) }, "nfs_opnum4(1000)"},
		"ILLEGAL without it": {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, encodeFailure(nfs4.OpIllegal, nfs4.OK)) }, "for ILLEGAL"},
		"two statuses": {func(s *nfs4.SequenceArgs) []byte {
			return encodeSequenceOK(s, put, encodeFailure(nfs4.OpGetAttr, nfs4.ErrIO))
		}, "GETATTR: NFS4ERR_IO, but COMPOUND"},
		"failure, but no": {func(s *nfs4.SequenceArgs) []byte { return encodeSequenced(s, nfs4.ErrIO, put, size) }, "GETATTR: NFS4_OK, but COMPOUND"},
		"on after a failure": {func(s *nfs4.SequenceArgs) []byte {
			return encodeSequenceOK(s, encodeFailure(nfs4.OpPutFH, nfs4.ErrStale), size)
		}, "results follow NFS4ERR_STALE"},
		"cut":                {func(s *nfs4.SequenceArgs) []byte { b := encodeSequenceOK(s, put, size); return b[:len(b)-4] }, "too short"},
		"too long":           {func(s *nfs4.SequenceArgs) []byte { return append(encodeSequenceOK(s, put, size), 0, 0, 0, 0) }, "after the last item"},
		"unasked attributes": {func(s *nfs4.SequenceArgs) []byte { return encodeSequenceOK(s, put, more) }, "not requested"},
		"another slot": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Slot++
			return encodeSequenceOK(&wrong, put, size)
		}, "not for slot"},
		"another session": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Session[5]++
			return encodeSequenceOK(&wrong, put, size)
		}, "not for slot"},
		"another sequence": {func(s *nfs4.SequenceArgs) []byte {
			wrong := *s
			wrong.Sequence++
			return encodeSequenceOK(&wrong, put, size)
		}, "not for slot"},
		"no session, ever": {func(s *nfs4.SequenceArgs) []byte {
			return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
		}, "8 sessions in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			var p fakeServer
			s := p.newSession(t)
			p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return tt.answer(seq) })
			_, err := s.GetAttr(t.Context(), nfs4.FH("h"), nfs4.BitmapOf(nfs4.AttrSize))
			assert.ErrorIs(t, err, ErrReply)
			assert.ErrorContains(t, err, tt.want)
			p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
				if len(x.Args) == frontLen { // the probe
					return encodeReply(nfs4.ErrSeqFalseRetry, encodeFailure(nfs4.OpSequence, nfs4.ErrSeqFalseRetry))
				}
				return encodeSequenceOK(seq, put, size)
			})
			a, err := s.GetAttr(t.Context(), nfs4.FH("h"), nfs4.BitmapOf(nfs4.AttrSize))
			assert.NoError(t, err, "the session goes on")
			assert.EqualValues(t, 3, a.Size)
		})
	}
}

// TestDataLies sends impossible results for operations with data.
func TestDataLies(t *testing.T) {
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	read := func(n int, eof bool) []byte {
		return xdr.AppendFixed(encodeResult(nfs4.OpRead, &nfs4.ReadRes{EOF: eof, Count: uint32(n)}), make([]byte, n))
	}
	wrote := func(n uint32, how nfs4.Stable) []byte {
		return encodeResult(nfs4.OpWrite, &nfs4.WriteRes{Count: n, Committed: how})
	}
	list := func(entries int, cookie uint64, eof bool) []byte {
		w := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
		for range entries {
			w.Add(&nfs4.DirEntry{Cookie: cookie, Name: []byte("n")})
		}
		return w.Finish(nfs4.Verifier{}, eof)
	}
	var p fakeServer
	s := p.newSession(t)
	f := &File{session: s, fh: nfs4.FH("h")}
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
		"length without data":  {encodeResult(nfs4.OpRead, &nfs4.ReadRes{Count: 8}), readAt, "too short"},
		"more written":         {wrote(9, nfs4.FileSync), writeAt, "9 bytes written of 8"},
		"nothing written":      {wrote(0, nfs4.FileSync), writeAt, "nothing was written"},
		"less stable":          {wrote(8, nfs4.Unstable), writeAt, "stable_how4 is 0"},
		"empty, but no end":    {list(0, 0, false), readDir, "no entries, but not at the end"},
		"the same cookie":      {list(1, 0, false), readDir, "cookie at which the list began"},
	} {
		t.Run(name, func(t *testing.T) {
			p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return encodeSequenceOK(seq, put, tt.result) })
			err := tt.call()
			assert.ErrorIs(t, err, ErrReply)
			assert.ErrorContains(t, err, tt.want)
		})
	}
	p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		return encodeSequenceOK(seq, put, read(3, false))
	})
	b := make([]byte, 8)
	n, err := f.ReadAt(t.Context(), b, 0)
	assert.NoError(t, err, "a short READ is allowed")
	assert.Equal(t, 3, n)
}

// TestPutOff checks which calls are repeated after NFS4ERR_DELAY.
//
// R8881-15.1.1.3-1, R8881-15.1.1.3-2.
func TestPutOff(t *testing.T) {
	var p fakeServer
	s := p.newSession(t)
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	calls := 0
	var ids []uint32
	p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		ids = append(ids, seq.Sequence)
		switch calls++; calls {
		case 1:
			return encodeReply(nfs4.ErrDelay, encodeFailure(nfs4.OpSequence, nfs4.ErrDelay))
		case 2:
			return encodeSequenced(seq, nfs4.ErrDelay, put, encodeFailure(nfs4.OpRemove, nfs4.ErrDelay))
		case 3:
			return encodeSequenced(seq, nfs4.ErrGrace, put, encodeFailure(nfs4.OpRemove, nfs4.ErrGrace))
		}
		return encodeSequenceOK(seq, put, encodeResult(nfs4.OpRemove, &nfs4.ChangeRes{}))
	})
	require.NoError(t, s.Remove(t.Context(), nfs4.FH("h"), "n"))
	assert.Equal(t, 4, calls)
	assert.Equal(t, []uint32{ids[0], ids[0], ids[0] + 1, ids[0] + 2}, ids, "the same only after an error of SEQUENCE")
	p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { // after the change
		return encodeSequenced(seq, nfs4.ErrDelay, put, encodeResult(nfs4.OpCreate, &nfs4.CreateRes{}), encodeFailure(nfs4.OpGetFH, nfs4.ErrDelay))
	})
	_, err := s.Mkdir(t.Context(), nfs4.FH("h"), "n", 0)
	assert.ErrorIs(t, err, nfs4.ErrDelay)
}

// TestPutOffAnywhere postpones each operation in each method: the call is
// repeated, unless it has changed something before.
//
// R8881-15.1.1.3-2.
func TestPutOffAnywhere(t *testing.T) {
	put, fh := encodeFailure(nfs4.OpPutFH, nfs4.OK), encodeResult(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")})
	list := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
	var p fakeServer
	s := p.newSession(t)
	ctx, dir := t.Context(), nfs4.FH("dir")
	file := func() *File { return &File{session: s, fh: nfs4.FH("h")} }
	for name, tt := range map[string]struct {
		results [][]byte // maximum results after SEQUENCE
		call    func() error
	}{
		"Open": {[][]byte{put, encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}), fh}, func() error {
			_, err := s.Open(ctx, dir, "n", OpenFlags{Read: true})
			return err
		}},
		"ReadAt": {[][]byte{put, encodeResult(nfs4.OpRead, &nfs4.ReadRes{EOF: true})}, func() error {
			_, err := file().ReadAt(ctx, make([]byte, 8), 0)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}},
		"WriteAt": {[][]byte{put, encodeResult(nfs4.OpWrite, &nfs4.WriteRes{Count: 8})}, func() error {
			_, err := file().WriteAt(ctx, make([]byte, 8), 0, nfs4.Unstable)
			return err
		}},
		"Commit": {[][]byte{put, encodeResult(nfs4.OpCommit, &nfs4.CommitRes{})}, func() error {
			_, err := file().Commit(ctx)
			return err
		}},
		"Truncate": {[][]byte{put, encodeResult(nfs4.OpSetAttr, &nfs4.SetAttrRes{})}, func() error { return file().Truncate(ctx, 1) }},
		"Close":    {[][]byte{put, encodeResult(nfs4.OpClose, &nfs4.StateIDRes{})}, func() error { return file().Close(ctx) }},
		"Walk": {[][]byte{encodeFailure(nfs4.OpPutRootFH, nfs4.OK), encodeFailure(nfs4.OpLookup, nfs4.OK), fh}, func() error {
			_, err := s.Walk(ctx, "n")
			return err
		}},
		"GetAttr": {[][]byte{put, encodeResult(nfs4.OpGetAttr, &nfs4.GetAttrRes{})}, func() error {
			_, err := s.GetAttr(ctx, dir, nfs4.Bitmap{})
			return err
		}},
		"Access": {[][]byte{put, encodeResult(nfs4.OpAccess, &nfs4.AccessRes{})}, func() error {
			_, err := s.Access(ctx, dir, 1)
			return err
		}},
		"SetAttr": {[][]byte{put, encodeResult(nfs4.OpSetAttr, &nfs4.SetAttrRes{})}, func() error { return s.SetAttr(ctx, dir, &nfs4.Attrs{}) }},
		"Mkdir": {[][]byte{put, encodeResult(nfs4.OpCreate, &nfs4.CreateRes{}), fh}, func() error {
			_, err := s.Mkdir(ctx, dir, "n", 0)
			return err
		}},
		"Remove": {[][]byte{put, encodeResult(nfs4.OpRemove, &nfs4.ChangeRes{})}, func() error { return s.Remove(ctx, dir, "n") }},
		"Rename": {[][]byte{put, encodeFailure(nfs4.OpSaveFH, nfs4.OK), put, encodeResult(nfs4.OpRename, &nfs4.RenameRes{})}, func() error {
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
			delayed := encodeFailure(op, nfs4.ErrDelay)
			if op == nfs4.OpSetAttr {
				delayed = encodeResult(op, &nfs4.SetAttrRes{Status: nfs4.ErrDelay})
			}
			calls := 0
			p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
				if calls++; calls == 1 {
					return encodeSequenced(seq, nfs4.ErrDelay, append(slices.Clone(tt.results[:at]), delayed)...)
				}
				return encodeSequenceOK(seq, tt.results...)
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
	p.setAnswer(nil)
}

// TestUncertain loses the session together with a connection: a change fails,
// and a call that changes nothing is repeated.
func TestUncertain(t *testing.T) {
	var p fakeServer
	s := p.newSession(t)
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	lose := func() {
		cut := &brokenOnceConn{fakeServer: &p}
		s.redialer.current.Store(&liveConn{Conn: cut})
		calls := 0
		p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
			if calls++; calls == 1 {
				return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
			}
			return encodeSequenceOK(seq, put, encodeResult(nfs4.OpAccess, &nfs4.AccessRes{Supported: 1, Access: 1}))
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

// TestCloseUncertain loses the session each time a CLOSE is repeated: Close
// continues until the server says that the file is closed.
func TestCloseUncertain(t *testing.T) {
	const losses = 3
	var p fakeServer
	s := p.newSession(t)
	f := s.newFile(OpenFlags{Write: true})
	f.fh, f.stateID, f.epoch = nfs4.FH("h"), nfs4.StateID{SeqID: 1, Other: [12]byte{1}}, s.current.Load().epoch
	require.True(t, s.registerFile(f))
	answers := 0
	p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		if answers++; answers <= losses {
			s.redialer.current.Store(nil)
			return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
		}
		return encodeSequenced(seq, nfs4.ErrBadStateID, encodeFailure(nfs4.OpPutFH, nfs4.OK), encodeFailure(nfs4.OpClose, nfs4.ErrBadStateID))
	})
	s.redialer.current.Store(nil)
	dials := 0
	s.redialer.dial = func(context.Context) (Conn, error) { // each second connection is lost with a call
		if dials++; dials%2 == 1 {
			return &brokenCallConn{fakeServer: &p}, nil
		}
		return &p, nil
	}
	assert.NoError(t, f.Close(t.Context()))
	assert.Equal(t, losses+1, answers)
	p.setAnswer(nil)
	s.redialer.dial = func(context.Context) (Conn, error) { return &p, nil }
}

// A brokenCallConn loses a session's call with its connection.
type brokenCallConn struct{ *fakeServer }

func (c *brokenCallConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	r := xdr.NewReader(x.Args)
	var head nfs4.CompoundArgs
	if head.Decode(&r); nfs4.Op(r.Uint32()) == nfs4.OpSequence {
		return oncrpc.ErrClosed
	}
	return c.fakeServer.Call(ctx, x)
}

// A brokenOnceConn loses a call with its connection.
type brokenOnceConn struct{ *fakeServer }

func (*brokenOnceConn) Call(context.Context, *oncrpc.Exchange) error { return oncrpc.ErrClosed }

// TestSetupLies sends impossible results for EXCHANGE_ID and CREATE_SESSION.
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
			p := fakeServer{setup: map[nfs4.Op]nfs4.Message{tt.op: tt.res}}
			_, err := p.dialServer()
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

// FuzzReply sends arbitrary replies to several forms of calls.
func FuzzReply(f *testing.F) {
	seq := &nfs4.SequenceArgs{Sequence: 1}
	put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
	w := nfs4.NewDirWriter(xdr.AppendUint32(nil, uint32(nfs4.OpReadDir)), 4096)
	w.Add(&nfs4.DirEntry{Cookie: 1, Name: []byte("n"), Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrType), Type: nfs4.TypeDir}})
	for _, b := range [][]byte{
		encodeSequenceOK(seq, put, xdr.AppendFixed(encodeResult(nfs4.OpRead, &nfs4.ReadRes{EOF: true, Count: 5}), []byte("hello"))),
		encodeSequenceOK(seq, put, w.Finish(nfs4.Verifier{}, true)),
		encodeSequenceOK(seq, put, encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}), encodeResult(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")})),
		encodeSequenceOK(seq, put, encodeResult(nfs4.OpGetAttr, &nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("o")}})),
		encodeSequenced(seq, nfs4.ErrIO, encodeFailure(nfs4.OpPutFH, nfs4.ErrIO)),
		encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession)),
		encodeReply(nfs4.ErrMinorVersMismatch),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p fakeServer
		s := p.newSession(t)
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := s.GetAttr(ctx, nfs4.FH("h"), nfs4.Known); return err },
			func(ctx context.Context) error {
				_, err := (&File{session: s, fh: nfs4.FH("h")}).ReadAt(ctx, make([]byte, 16), 0)
				return err
			},
			func(ctx context.Context) error {
				_, err := s.Open(ctx, nfs4.FH("h"), "n", OpenFlags{Read: true})
				return err
			},
			func(ctx context.Context) error {
				_, err := s.readDirPage(ctx, nfs4.FH("h"), &nfs4.ReadDirArgs{})
				return err
			},
		} {
			g := s.current.Load()
			seq.Session = g.id
			first := true
			p.setAnswer(func(*nfs4.SequenceArgs, *oncrpc.Exchange) []byte {
				if !first {
					return nil
				}
				first = false
				return b
			})
			_ = call(t.Context())
		}
		p.setAnswer(nil)
	})
}
