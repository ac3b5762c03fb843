package nfs4client

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// everyOperation sends calls with each of a Session's operations, in the
// directory dir. f is an open file.
func everyOperation(ctx context.Context, s *Session, dir nfs4.FH, f *File) map[string]error {
	all := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrFileHandle)
	errs := make(map[string]error)
	_, errs["LOOKUP"] = s.Walk(ctx, "/a/b")
	_, errs["GETATTR"] = s.GetAttr(ctx, dir, all)
	_, errs["ACCESS"] = s.Access(ctx, dir, nfs4.AccessRead)
	errs["SETATTR"] = s.SetAttr(ctx, f.Handle(), &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o600})
	_, errs["CREATE"] = s.Mkdir(ctx, dir, "made", 0o755)
	errs["RENAME"] = s.Rename(ctx, dir, "made", dir, "moved")
	errs["REMOVE"] = s.Remove(ctx, dir, "moved")
	for _, err := range s.ReadDir(ctx, dir, all) {
		errs["READDIR"] = err
	}
	_, errs["OPEN"] = s.Open(ctx, dir, "f", OpenFlags{Read: true})
	_, errs["WRITE"] = f.WriteAt(ctx, make([]byte, s.MaxWrite()), 1, nfs4.FileSync)
	if _, errs["READ"] = f.ReadAt(ctx, make([]byte, 3*s.MaxRead()), 0); errs["READ"] == io.EOF {
		errs["READ"] = nil
	}
	_, errs["COMMIT"] = f.Commit(ctx)
	errs["SETATTR of an open file"] = f.Truncate(ctx, 100)
	if errs["LOCK"] = f.Lock(ctx, Range{Start: 0, End: 10}, true); errs["LOCK"] == nil {
		errs["LOCKU"] = f.Unlock(ctx, Range{Start: 0, End: 10})
	}
	errs["SEQUENCE"] = s.Sequence(ctx)
	return errs
}

// A fakeWatchedConn is a Conn whose calls the test sees and may reply to.
type fakeWatchedConn struct {
	Conn
	mu     sync.Mutex
	answer func(x *oncrpc.Exchange) error // nil, or if it returns no error: the server replies
}

func (w *fakeWatchedConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	w.mu.Lock()
	answer := w.answer
	w.mu.Unlock()
	if answer != nil {
		if err := answer(x); err != nil {
			return err
		}
	}
	return w.Conn.Call(ctx, x)
}

func (w *fakeWatchedConn) setAnswer(answer func(x *oncrpc.Exchange) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// TestTransportErrors: R8267-6.4.2-4, R8267-6.4.2-5, R8267-6.7.2-2,
// R8267-6.6-2. A call whose chunks or arguments the server cannot use fails,
// and is not sent again, whatever its operation. Its slot remains usable.
func TestTransportErrors(t *testing.T) {
	for name, refusal := range map[string]error{
		"ERR_CHUNK":    &rpcrdma.RemoteError{Code: wire.ErrChunk},
		"ERR_VERS":     &rpcrdma.RemoteError{Code: wire.ErrVers, Low: 2, High: 2},
		"GARBAGE_ARGS": &oncrpc.ReplyError{Stat: rpcmsg.GarbageArgs},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := newTestServer(t), new(fakeWatchedConn)
			g.wrapConn = func(c Conn) Conn {
				w.Conn = c
				return w
			}
			s := g.newSession(func(c *Config) { c.Slots = 1 })
			dir, before := exportRoot(t, s), s.Server().Session
			f, err := s.Open(t.Context(), dir, "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
			require.NoError(t, err)
			calls := 0
			w.setAnswer(func(x *oncrpc.Exchange) error {
				if len(x.Args) == frontLen { // SEQUENCE alone: is the slot as it was?
					return nil
				}
				calls++
				return refusal
			})
			errs := everyOperation(t.Context(), s, dir, f)
			assert.NoError(t, errs["SEQUENCE"])
			delete(errs, "SEQUENCE")
			for op, err := range errs {
				assert.ErrorIs(t, err, refusal, op)
			}
			assert.Equal(t, len(errs), calls, "each call is sent once")
			w.setAnswer(nil)
			for op, err := range everyOperation(t.Context(), s, dir, f) {
				assert.NoError(t, err, op)
			}
			require.NoError(t, f.Close(t.Context()))
			assert.Equal(t, before, s.Server().Session, "the session goes on")
		})
	}
}

// TestReplyRoom: R8267-6.2.2-1. The client has no memory registered for a reply that is
// longer than the session allows, ca_maxresponsesize, which counts RPC's header as well.
func TestReplyRoom(t *testing.T) {
	const least = messageOverhead
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: least, MaxResponseSizeCached: least, MaxOperations: 16, MaxRequests: 1}
	p := fakeServer{setup: map[nfs4.Op]nfs4.Message{nfs4.OpCreateSession: &nfs4.CreateSessionRes{Session: nfs4.SessionID{1}, Sequence: 9, Fore: ch, Back: ch}}}
	s := p.newSession(t)
	longest := 0
	p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
		size := replyHeaderLen + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink))
		assert.LessOrEqual(t, size, least)
		longest = max(longest, size)
		if len(x.Args) == frontLen { // the probe
			return encodeReply(nfs4.ErrSeqFalseRetry, encodeFailure(nfs4.OpSequence, nfs4.ErrSeqFalseRetry))
		}
		return nil
	})
	f := s.newFile(OpenFlags{Read: true, Write: true})
	f.epoch = s.current.Load().epoch
	for op, err := range everyOperation(t.Context(), s, nfs4.FH("dir"), f) {
		if op != "SEQUENCE" {
			assert.ErrorIs(t, err, errNoAnswer, op)
		}
	}
	assert.Equal(t, least, longest)
}

// A recordingDialer is a dialer whose connections show the messages that they send.
type recordingDialer struct {
	fakeDialer
	sent []func(msg []byte)
}

func (d recordingDialer) Dial(ctx context.Context, addr string, c rdma.ConnConfig) (rdma.Conn, error) {
	conn, err := d.fakeDialer.Dial(ctx, addr, c)
	if err != nil {
		return nil, err
	}
	return recordingConn{conn, d.sent}, nil
}

type recordingConn struct {
	rdma.Conn
	sent []func(msg []byte)
}

func (c recordingConn) Post(wrs ...rdma.WR) error {
	for _, sent := range c.sent {
		for _, wr := range wrs {
			if wr.Op == rdma.OpSend {
				sent(slices.Concat(wr.Data...))
			}
		}
	}
	return c.Conn.Post(wrs...)
}

// TestChunkLists: R8267-6.4.2-1. No call has more in its lists than servers
// must accept: a Position Zero chunk, another Read chunk, and a Write chunk,
// each of at most 16 segments.
func TestChunkLists(t *testing.T) {
	var mu sync.Mutex
	reads, writes, replies := 0, 0, 0
	g := newTestServer(t)
	s := g.newRDMASession(func(msg []byte) {
		mu.Lock()
		defer mu.Unlock()
		var h wire.Header
		if _, err := h.ParseCall(msg); !assert.NoError(t, err) {
			return
		}
		segments := make(map[uint32]int) // by position
		for _, seg := range h.Lists.Reads {
			segments[seg.Position]++
		}
		zero := min(segments[0], 1)
		assert.LessOrEqual(t, len(segments)-zero, 1, "Read chunks")
		assert.LessOrEqual(t, h.Lists.Writes(), 1, "Write chunks")
		all := []chunks.Chunk{h.Lists.Reply}
		for i := range h.Lists.Writes() {
			all = append(all, h.Lists.Write(i))
		}
		for _, n := range segments {
			assert.LessOrEqual(t, n, 16)
		}
		for _, c := range all {
			assert.LessOrEqual(t, len(c), 16)
		}
		reads, writes, replies = reads+len(segments), writes+h.Lists.Writes(), replies+min(len(h.Lists.Reply), 1)
	})
	dir := exportRoot(t, s)
	f, err := s.Open(t.Context(), dir, "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	for op, err := range everyOperation(t.Context(), s, dir, f) {
		assert.NoError(t, err, op)
	}
	require.NoError(t, f.Close(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	for list, n := range map[string]int{"Read": reads, "Write": writes, "Reply": replies} {
		assert.Positive(t, n, list)
	}
}
