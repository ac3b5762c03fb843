package oncrpc

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A boundSigner notes its call's connection, which is not sent.
type boundSigner struct{ seen []*Security }

var errUnsent = errors.New("not sent")

func (*boundSigner) Whole() bool                                          { return false }
func (*boundSigner) Overhead() (call, reply int)                          { return 0, 0 }
func (*boundSigner) Sent()                                                {}
func (*boundSigner) Open(rpcmsg.OpaqueAuth, uint32, *xdr.Reader) error    { return nil }
func (b *boundSigner) Bind(s *Security)                                   { b.seen = append(b.seen, s) }
func (*boundSigner) AppendCall([]byte, uint32, *Exchange) ([]byte, error) { return nil, errUnsent }

type securePipe struct {
	net.Conn
	security Security
}

func (p *securePipe) WriteBuffers(v *net.Buffers) (int64, error) { return v.WriteTo(p.Conn) }
func (p *securePipe) Security() *Security                        { return &p.security }

// TestBind checks that a Signer learns how the connection is protected that carries its
// call.
func TestBind(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	secure := &securePipe{Conn: near, security: Security{Binding: []byte("b")}}
	for nc, want := range map[net.Conn]*Security{near: nil, secure: &secure.security} {
		c := NewTCPClient(nc, ClientConfig{})
		var s boundSigner
		assert.ErrorIs(t, c.Call(t.Context(), &Exchange{Signer: &s}), errUnsent)
		assert.Equal(t, []*Security{want}, s.seen)
		c.Close()
	}
}
