package rpcrdma

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A form is a call's and its reply's transport form.
type form struct {
	proc                wire.Proc
	read, write, answer int // bytes in the Read, Write and Reply chunk; 0: none
}

func formOf(h receivedCall) form {
	f := form{proc: h.Proc, answer: int(h.Lists.Reply.Length())}
	for _, s := range h.Lists.Reads {
		f.read += int(s.Length)
	}
	for i := range h.Lists.Writes() {
		f.write += int(h.Lists.Write(i).Length())
	}
	return f
}

const (
	callLen     = 40                                 // an RPC call without a credential, in bytes
	replyLen    = oncrpc.MaxReplyHeader              // a reply's longest header
	inlineSpace = 1024 - wire.MinLen                 // for the RPC message, without chunks
	segLen      = readChunkLen                       // a single-segment chunk's length
	argSpace    = inlineSpace - callLen              // for arguments
	resSpace    = inlineSpace - replyLen             // for results
	inRead      = inlineSpace - callLen - segLen     // for arguments next to a Read chunk
	inWrite     = inlineSpace - replyLen - segLen    // for results next to a Write chunk
	inReply     = inlineSpace - callLen - segLen + 4 // for arguments with a Reply chunk
)

// TestForms checks that a message up to the threshold is sent inline; one byte
// more makes a chunk, exactly as long as its content (R8166-3.5.1-1,
// R8166-3.5.2-1, R8166-3.5.3-1, R8166-4.2.4-5, R8166-4.3.3-1, R8166-6.2-1,
// R8166-4.3.1-2, R8166-4.3.2-2). Only the data item ever is in a chunk of its
// own (R8166-3.4.2-1, R8166-3.4.4.4-1, R8166-6.1-1), and the sink is as long as
// the longest item (R8166-4.3.2.2-2).
func TestForms(t *testing.T) {
	for _, tt := range []struct {
		name                        string
		args, item, tail, max, sink int
		want                        form
	}{
		{"nothing", 0, 0, 0, 0, 0, form{}},
		{"R8797-3.1-2 arguments at the threshold", argSpace, 0, 0, 0, 0, form{}},
		{"R8797-3.1-2 arguments above it", argSpace + 4, 0, 0, 0, 0, form{proc: wire.NoMsg, read: inlineSpace + 4}},
		{"item at the threshold", argSpace - 100, 97, 0, 0, 0, form{}},
		{"R8166-3.4.5.2-1 R8166-3.4.5.2-3 item above it", argSpace - 100, 101, 0, 0, 0, form{read: 101}},
		{"tail at the threshold", argSpace - 104, 97, 4, 0, 0, form{}},
		{"tail above it", argSpace - 100, 97, 4, 0, 0, form{read: 97}},
		{"arguments with a Read chunk at the threshold", inRead, 5000, 0, 0, 0, form{read: 5000}},
		{"R8166-3.5.3-5 and above it", inRead + 4, 4999, 0, 0, 0, form{proc: wire.NoMsg, read: callLen + inRead + 4 + 5000}},
		{"results at the threshold", 0, 0, 0, resSpace, 0, form{}},
		{"results above it", 0, 0, 0, resSpace + 4, 0, form{answer: replyLen + resSpace + 4}},
		{"data at the threshold", 0, 0, 0, resSpace - 100, 97, form{}},
		{"R8166-3.4.6-1 R8166-3.4.6.2-1 data above it", 0, 0, 0, resSpace - 100, 101, form{write: 101}},
		{"results with a Write chunk at the threshold", 0, 0, 0, inWrite, 5001, form{write: 5001}},
		{"R8166-3.5.3-5 and above it", 0, 0, 0, inWrite + 4, 5001, form{answer: replyLen + inWrite + 4 + 5004}},
		{"Read and Write chunk", 40, 5000, 0, 40, 6000, form{read: 5000, write: 6000}},
		{"Read and Reply chunk", 40, 5000, 0, 1000, 0, form{read: 5000, answer: replyLen + 1000}},
		{"Long Call and Reply chunk", 2000, 0, 0, 1000, 0, form{proc: wire.NoMsg, read: callLen + 2000, answer: replyLen + 1000}},
		{"arguments with a Reply chunk at the threshold", inReply, 0, 0, 1000, 0, form{answer: replyLen + 1000}},
		{"and above it", inReply + 4, 0, 0, 1000, 0, form{proc: wire.NoMsg, read: callLen + inReply + 4, answer: replyLen + 1000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := &oncrpc.Exchange{
					Prog: 1, Vers: 2, Proc: 3, Args: rampBytes(tt.args), Item: rampBytes(tt.item), Tail: rampBytes(tt.tail),
					MaxResults: tt.max, Sink: make([]byte, tt.sink),
				}
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				assert.Equal(t, tt.want, formOf(h))
				assert.LessOrEqual(t, len(h.wire), 1024)
				assert.Equal(t, tt.want.answer > 0, h.Lists.HasReply)
				assert.LessOrEqual(t, len(h.Lists.Reads), 1, "R8166-3.4.5-3: one segment has one position")

				want := oncrpc.AppendCall(nil, h.XID, x, "")
				want = append(append(want, x.Args...), x.Item...)
				want = append(append(want, padding(len(x.Item))...), x.Tail...)
				assert.Equal(t, want, p.wholeMessage(h), "R8166-3.4.5-1: put together by their positions")

				p.sendReply(h, wire.Header{})
				require.NoError(t, callError(t, done))
				x.Release()
			})
		})
	}
}

// TestPosition checks that the position of a Read chunk counts the whole
// credential, whatever its length (R8166-3.4.5-1, R8166-3.4.5-2,
// R8166-3.4.4.1-1, R8166-3.4.4.4-2): the item's length precedes it, and the
// bytes behind the item are not padded.
func TestPosition(t *testing.T) {
	for machine := range 10 {
		for gids := range 4 {
			name := string(patternBytes(machine + 1))
			withFakeServer(t, knfsd, ClientConnConfig{Machine: name}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := &oncrpc.Exchange{Prog: 1, Vers: 2, Proc: 3, Args: xdr.AppendUint32(nil, 5001), Item: rampBytes(5001), Tail: []byte("tail")}
				x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1, GID: 2, GIDs: make([]uint32, gids)}
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				head := append(oncrpc.AppendCall(nil, h.XID, x, name), x.Args...)
				require.Len(t, h.Lists.Reads, 1)
				assert.EqualValues(t, len(head), h.Lists.Reads[0].Position)
				assert.Equal(t, string(head)+"tail", string(h.body))
				assert.Equal(t, x.Item, p.readMemory(h.Lists.Reads[0].Segment))
				p.sendReply(h, wire.Header{})
				require.NoError(t, callError(t, done))
				x.Release()
			})
		}
	}
}

// A fixedAddressConn registers memory at a capture's addresses.
type fixedAddressConn struct {
	*watchedConn
	p  *fakeServer
	at rdma.Remote
}

func (c *fixedAddressConn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	return c.watchedConn.Conn.(interface {
		RegisterAt([]byte, rdma.Access, rdma.Remote) (rdma.Region, error)
	}).RegisterAt(b, access, c.at)
}

// TestRequesterGolden checks that our calls are exactly Linux's client's, and
// that knfsd's answers are accepted (R8166-3.2-1, R8166-4-1, R8166-4.2-1,
// R8166-4.7-1, R8166-2.3.2-1).
func TestRequesterGolden(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		xid          uint32
		at           rdma.Remote
		args, tail   int // bytes in the capture's RPC message that are arguments
		item, sink   int
	}{
		{name: "null-call", answer: "null-reply", xid: 0xf984739a},
		{name: "write-chunk-call", answer: "write-chunk-reply", xid: 0x0585739a, args: 36, sink: 4096, at: rdma.Remote{STag: 0xccf3fb01, TO: 0x0585739a083af000}},
		{name: "read-chunk-call", xid: 0x0985739a, args: 44, item: 262144, at: rdma.Remote{STag: 0xccf3fb02, TO: 0x0985739a01e3a000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, knfsd, ClientConnConfig{Machine: "rig"}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				c.conn = &fixedAddressConn{p.watched, p, tt.at}
				c.xids = oncrpc.NewXIDs(tt.xid)
				want := wiretest.Hex(t, "testdata/"+tt.name+".hex")
				var ref wire.Header
				body, err := ref.ParseCall(want)
				require.NoError(t, err)
				word := func(i int) uint32 {
					return uint32(body[4*i])<<24 | uint32(body[4*i+1])<<16 | uint32(body[4*i+2])<<8 | uint32(body[4*i+3])
				}
				x := &oncrpc.Exchange{
					Prog: word(3), Vers: word(4), Proc: word(5), Args: body[len(body)-tt.args:],
					Item: make([]byte, tt.item), Sink: make([]byte, tt.sink), MaxResults: 128,
				}
				x.Cred.Flavor = word(6)
				done := startCall(t.Context(), c, x)
				assert.Equal(t, want, p.onlyCall().wire)
				if tt.answer == "" {
					p.sendReply(receivedCall{Header: ref}, wire.Header{})
					require.NoError(t, callError(t, done))
					x.Release()
					return
				}
				if tt.sink > 0 {
					p.writeMemory(chunks.Segment{Handle: uint32(tt.at.STag), Offset: tt.at.TO}, []byte("hello\n"))
				}
				p.sendRaw(wiretest.Hex(t, "testdata/"+tt.answer+".hex"))
				require.NoError(t, callError(t, done))
				assert.Equal(t, 64, c.Credits())
				if tt.sink > 0 {
					x.Results.Fixed(4 + 4 + 84) // status, attributes
					assert.EqualValues(t, 6, x.Results.Uint32())
					assert.EqualValues(t, 1, x.Results.Uint32(), "end of file")
					assert.Equal(t, "hello\n", string(x.Results.Item(4096)))
				}
				assert.NoError(t, x.Results.Done())
				x.Release()
			})
		})
	}
}

// TestNoItemInLongCall checks that NFSv3's longest WRITE leaves space at the
// smallest threshold, so that a Read chunk together with one at position zero
// is never needed.
func TestNoItemInLongCall(t *testing.T) {
	const write3args = 4 + 64 + 8 + 4 + 4 + 4 // RFC 1813, Section 3.3.7, without the data
	assert.LessOrEqual(t, maxCallHeader+write3args, 1024-wire.MinLen-readChunkLen-writeChunkLen)
}

// TestReplyVerifier checks that a reply's estimate allows for the longest
// verifier (R8166-8.2.2.2-1), and that the longest message that any server may
// send is accepted (R8166-3.3.3-4).
func TestReplyVerifier(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := &oncrpc.Exchange{Prog: 1, Vers: 1, Proc: 1, MaxResults: resSpace}
		done := startCall(t.Context(), c, x)
		h := p.onlyCall()
		assert.Equal(t, form{}, formOf(h), "without chunks")
		r := wire.Header{XID: h.XID, Vers: 1, Credit: 1}
		b := xdr.AppendUint32(r.AppendTo(nil), h.XID)
		b = xdr.AppendUint64(b, 1<<32) // REPLY, MSG_ACCEPTED
		b = xdr.AppendOpaque(xdr.AppendUint32(b, 6), patternBytes(400))
		b = append(xdr.AppendUint32(b, 0), rampBytes(resSpace)...)
		assert.Len(t, b, 1024)
		p.sendRaw(b)
		require.NoError(t, callError(t, done))
		assert.Equal(t, rampBytes(resSpace), x.Results.Fixed(resSpace))
		x.Release()
	})
}
