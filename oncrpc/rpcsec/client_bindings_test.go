package rpcsec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A fakeShiftingCaller Caller has other connections for its calls, one after the other.
type fakeShiftingCaller struct {
	oncrpc.Caller
	conns []*oncrpc.Security
}

func (s *fakeShiftingCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	x.Bind(s.conns[0])
	if len(s.conns) > 1 {
		s.conns = s.conns[1:]
	}
	return s.Caller.Call(ctx, x)
}

// TestClientBindings checks that a context is bound to the connection that carries its
// token (R9289-4.2.1-1), and that another is made if the token comes to another
// connection, whose server would refuse it.
func TestClientBindings(t *testing.T) {
	a, b := &oncrpc.Security{Binding: []byte("a")}, &oncrpc.Security{Binding: []byte("b")}
	for _, tt := range []struct {
		name  string
		conns []*oncrpc.Security
		want  []string
	}{
		{"in clear", []*oncrpc.Security{nil}, []string{""}},
		{"inside of TLS", []*oncrpc.Security{a}, []string{"", "tls-exporter:a"}},
		{"a new connection", []*oncrpc.Security{a, b}, []string{"", "tls-exporter:a", "tls-exporter:b"}},
		{"TLS ends", []*oncrpc.Security{a, nil}, []string{"", "tls-exporter:a", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newClientRig(t, rpcmsg.AuthKrb5i)
			r.next = &fakeShiftingCaller{&r.line, tt.conns}
			checkEcho(t, r, []byte("data"))
			require.Equal(t, tt.want, r.bindings)
			checkEcho(t, r, []byte("data"))
			assert.Len(t, r.bindings, len(tt.want), "the context serves for all connections")
			another := r.newConfig(rpcmsg.AuthKrb5i)
			another.Bound = r.bound
			checkEcho(t, NewClient(r.next, another), []byte("data"))
			assert.Equal(t, append(tt.want, tt.want[len(tt.want)-1]), r.bindings, "another user")
		})
	}
}
