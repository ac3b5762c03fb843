package oncrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// fuzzCalls calls are in flight when FuzzClient sends its bytes. The last call allows the
// longest reply.
const (
	fuzzCalls = 3
	fuzzStep  = 64
)

// FuzzClient gives a client with calls in flight an arbitrary stream. It compares the
// result of each call with a simple reader of RFC 5531, Section 11, and checks that
// nothing is left.
func FuzzClient(f *testing.F) {
	reply := wiretest.Hex(f, "testdata/getattr-reply.hex")
	binary.BigEndian.PutUint32(reply, 3)
	denied := wiretest.Hex(f, "testdata/auth-tooweak.hex")
	binary.BigEndian.PutUint32(denied, 1)
	f.Add(append(newRecord(reply), newRecord(denied)...))
	f.Add(append(newFragment(false, reply[:5]), newFragment(true, reply[5:])...))
	f.Add(append(newRecord(echoReply(9, procHead, nil)), newRecord(echoReply(2, procHead, []byte("data")))...))
	f.Add(newRecord(echoReply(2, procHead, make([]byte, 600))))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		near, far := net.Pipe()
		c := NewTCPClient(near, ClientConfig{})
		c.xids = NewXIDs(1)
		results := make([]chan error, fuzzCalls)
		calls := make([]Exchange, fuzzCalls)
		for i := range calls {
			calls[i].MaxResults = i * fuzzStep
			results[i] = make(chan error, 1)
			go func() { results[i] <- c.Call(context.Background(), &calls[i]) }()
			require.EqualValues(t, i+1, xidOf(readRecord(t, far)))
		}
		_, _ = far.Write(stream)
		far.Close()
		want := plainReplies(stream)
		for i := range calls {
			checkOutcome(t, <-results[i], &calls[i], uint32(i+1), want[i])
			calls[i].Release()
		}
		require.NoError(t, c.Close())
		require.Zero(t, buf.Default.Out())
	})
}

// checkOutcome compares a call's end with its record, or nil.
func checkOutcome(t *testing.T, err error, x *Exchange, xid uint32, want []byte) {
	if want == nil {
		require.ErrorIs(t, err, ErrClosed)
		return
	}
	r := xdr.NewReader(want)
	if wantErr := ReadReply(&r, xid); wantErr != nil {
		require.Equal(t, wantErr.Error(), err.Error())
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, x.Lent.B)
	require.Equal(t, r.Offset(), x.Results.Offset())
}

// plainReplies returns the first record for each call, up to the first record
// that is too long or is no reply.
func plainReplies(stream []byte) (replies [fuzzCalls][]byte) {
	for {
		rec, rest, err := plainRecord(stream, MaxReplyHeader+(fuzzCalls-1)*fuzzStep)
		if err != nil || len(rec) < 4 {
			return replies
		}
		stream = rest
		if i := xidOf(rec) - 1; i < fuzzCalls && replies[i] == nil {
			if len(rec) > MaxReplyHeader+int(i)*fuzzStep {
				return replies
			}
			replies[i] = rec
		}
	}
}

func plainRecord(stream []byte, limit int) (rec, rest []byte, err error) {
	for last := false; !last; {
		if len(stream) < markLen {
			return nil, nil, io.ErrUnexpectedEOF
		}
		mark := binary.BigEndian.Uint32(stream)
		stream = stream[markLen:]
		last = mark&lastFrag != 0
		n := int(mark &^ lastFrag)
		switch {
		case len(rec)+n > limit:
			return nil, nil, errors.New("too long")
		case n > len(stream):
			return nil, nil, io.ErrUnexpectedEOF
		}
		rec, stream = append(rec, stream[:n]...), stream[n:]
	}
	return rec, stream, nil
}
