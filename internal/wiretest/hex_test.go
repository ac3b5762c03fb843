package wiretest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHex(t *testing.T) {
	want := []byte{0xc1, 0x40, 0xde, 0xad, 0xbe, 0xef, 0x00}
	first := Hex(t, "testdata/sample.hex")
	assert.Equal(t, want, first)
	first[0] = 0
	assert.Equal(t, want, Hex(t, "testdata/sample.hex"), "a slice of its own")
	assert.Equal(t, want, Bytes(t, "c140 dead # rest\nbeef 00"))
	assert.Empty(t, Bytes(t, "# no data"))
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"c", "c1 4", "zz", "c1 0x40", "c1\n4 # a pair does not span lines\n0"} {
		_, err := parseHex(text)
		assert.Error(t, err, "%q", text)
	}
	_, err := parseHex("c1\n4g")
	assert.ErrorContains(t, err, "line 2")
}
