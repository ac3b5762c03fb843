package fairshare

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	of := func(ip string) string { return PartyOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}).String() }
	assert.Equal(t, "192.0.2.1/32", of("192.0.2.1"))
	assert.Equal(t, "192.0.2.1/32", of("::ffff:192.0.2.1"))
	assert.Equal(t, "2001:db8:0:1::/64", of("2001:db8:0:1::1"))
	assert.Equal(t, of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"))
	assert.NotEqual(t, of("2001:db8:0:1::1"), of("2001:db8:0:2::1"))
	zoned := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}
	assert.Equal(t, of("fe80::1"), PartyOf(zoned).String())
	assert.Zero(t, PartyOf(&net.TCPAddr{}))
	assert.Zero(t, PartyOf(&net.UnixAddr{Name: "x"}))
}
