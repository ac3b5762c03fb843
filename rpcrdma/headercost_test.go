package rpcrdma

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// BenchmarkHeader decodes a call's header and encodes it.
func BenchmarkHeader(b *testing.B) {
	for _, name := range []string{"null-call", "write-chunk-call", "read-chunk-call", "two-segments"} {
		b.Run(name, func(b *testing.B) {
			wire := wiretest.Hex(b, "testdata/"+name+".hex")
			var h Header
			_, err := h.ParseCall(wire)
			require.NoError(b, err)
			out := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.ParseCall(wire)
				out = h.AppendTo(out[:0])
			}
		})
	}
}
