package firstbytes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIdentify(t *testing.T) {
	call := "\x80\x00\x00\x28\x01\x02\x03\x04\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa3"
	for first, want := range map[string]string{
		"MPA ID Req Frame": "RDMA (MPA)", "GET / HTTP/1.1\r\n": "HTTP", "PRI * HTTP/2.0": "HTTP", "SSH-2.0-OpenSSH": "SSH",
		"\x16\x03\x01\x00\xa5": "TLS", call: "RPC over TCP", call[:15]: "", "garbage": "", "GET": "", "": "",
	} {
		assert.Equal(t, want, Identify([]byte(first)), "%q", first)
	}
}
