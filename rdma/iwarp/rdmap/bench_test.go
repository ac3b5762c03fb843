package rdmap

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// BenchmarkSegment encodes a segment's headers, and decodes and checks them:
// the work for each FPDU.
func BenchmarkSegment(b *testing.B) {
	out := make([]byte, 0, 64)
	b.Run("tagged", func(b *testing.B) {
		memory := ddp.Buffer{TO: 0, Len: 1 << 20, Writable: true}
		b.ReportAllocs()
		for b.Loop() {
			h, payload, err := ddp.ParseTagged(AppendTagged(out, OpWrite, true, 1, 4096))
			if _, opErr := CheckTagged(h); err != nil || opErr != nil || ddp.CheckTagged(memory, h, 1024+len(payload)) != nil {
				b.Fatal(err, opErr)
			}
		}
	})
	b.Run("untagged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, _, err := ddp.ParseUntagged(AppendUntagged(out, OpSend, true, 0, 1, 0))
			if _, opErr := CheckUntagged(h); err != nil || opErr != nil {
				b.Fatal(err, opErr)
			}
		}
	})
}
