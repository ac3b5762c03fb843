package rpcrdma

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestRelay checks that a relayed call keeps its header, and that its reply
// comes back unchanged, including rejections, in each form.
func TestRelay(t *testing.T) {
	withClientConn(t, new(Server), ClientConnConfig{}, func(t *testing.T, c *ClientConn, _ *echoProgram, _ *memDialer) {
		for name, tt := range map[string]struct {
			flavor        byte
			results, item int
			placed        bool
		}{
			"inline":      {0, 10, 100, false},
			"Write chunk": {0, 10, 70000, true},
			"Reply chunk": {0, 70000, 0, false},
			"refused":     {77, 10, 100, false},
		} {
			args := xdr.AppendUint32(xdr.AppendUint32(nil, uint32(tt.results)), uint32(tt.item))
			args = xdr.AppendUint32(xdr.AppendOpaque(args, []byte("data")), 9)
			msg := append(oncrpc.AppendCall(nil, 0, &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}, ""), args...)
			msg[27] = tt.flavor
			x := &oncrpc.Exchange{
				Relay: true, Prog: echoProg, Vers: 1, Proc: 1, Args: msg[4:], MaxResults: tt.results + 100, Sink: make([]byte, tt.item),
			}
			require.NoError(t, c.Call(t.Context(), x), name)
			if tt.flavor != 0 {
				assert.Len(t, x.Reply, 20, "AUTH_ERROR")
			} else {
				r := xdr.NewReader(x.Reply[24:])
				if tt.placed {
					r.SetMoved(x.Sink[:x.Placed])
				}
				assert.Equal(t, rampBytes(tt.results), r.Opaque(tt.results), name)
				r.Fixed(8)
				assert.Equal(t, rampBytes(tt.item), r.Item(tt.item), name)
				assert.EqualValues(t, 9, r.Uint32(), name)
				assert.NoError(t, r.Done(), name)
			}
			assert.Equal(t, tt.placed, x.Placed == 70000, name)
			x.Release()
			assert.Nil(t, x.Reply)
		}
	})
}
