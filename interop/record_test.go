//go:build interop

package interop

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestRecord lets tshark decode what a connection recorded of itself: over IPv4
// and IPv6, with CRCs, with Markers, and where the record has dropped its middle.
func TestRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		listen  string
		crc     mpa.CRC
		markers bool // in what the responder receives
		record  int
		drops   bool
	}{
		"CRC on":          {"127.0.0.1:0", mpa.CRCOn, false, 16 << 20, false},
		"CRC off, IPv6":   {"[::1]:0", mpa.CRCOff, false, 16 << 20, false},
		"dropped":         {"127.0.0.1:0", mpa.CRCOn, false, 1, true},
		"Markers":         {"127.0.0.1:0", mpa.CRCOn, true, 16 << 20, false},
		"Markers dropped": {"127.0.0.1:0", mpa.CRCOn, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", tt.listen)
			require.NoError(t, err)
			ln := iwarp.NewListener(l, iwarp.Config{CRC: tt.crc, Markers: tt.markers, Record: tt.record})
			defer ln.Close()
			s := connect(t, ln, tt.crc, 20)
			exchange(t, s)
			require.Error(t, s.terminate(t))
			s.close(t)
			file := recordOf(t, s.conns[1])
			keep(t, file)

			packets := count(t, file, "tcp.len > 0")
			assert.Equal(t, 1, count(t, file, "iwarp_mpa.req"))
			assert.Equal(t, 1, count(t, file, "iwarp_mpa.rep"))
			assert.Equal(t, packets-2, count(t, file, "iwarp_ddp_rdmap"), "an FPDU in each")
			assert.Equal(t, packets-2, count(t, file, "iwarp_mpa.fpdu"))
			assert.Equal(t, 1, count(t, file, "iwarp_rdma.opcode == 7"), "Terminate messages")
			sends := count(t, file, "iwarp_rdma.opcode >= 3 && iwarp_rdma.opcode <= 6 && iwarp_ddp.last_flag == 1", asIs)
			if tt.drops {
				assert.Less(t, sends, 10)
			} else {
				assert.Equal(t, 10, sends)
			}
			checkCRCs(t, file, packets-2, tt.crc == mpa.CRCOn)
			for c, n := range complaints(t, file, asIs) {
				assert.Contains(t, dissected, c, "%d times", n)
			}
			assert.Zero(t, count(t, file, "_ws.malformed", asIs))
			assert.Zero(t, count(t, file, "tcp.analysis.flags"), "what tshark finds odd about TCP")
		})
	}
}

// terminate has the initiator post what the responder does not take.
func (s *sides) terminate(t *testing.T) error {
	t.Helper()
	require.NoError(t, s.conns[0].Post(rdma.WR{
		Op: rdma.OpWrite, Data: [][]byte{{1, 2, 3}}, Remote: rdma.Remote{STag: 0x12345678},
	}))
	_, err := s.recvs[0].Wait(t.Context())
	return err
}

// recordOf writes the record of a connection to a file.
func recordOf(t *testing.T, c rdma.Conn) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record.pcap")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, c.(*iwarp.Conn).WriteRecord(f))
	require.NoError(t, f.Close())
	return file
}
