package nfs4

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// operations are the numbers in use, up to minor version 2 (RFC 7863) and extended
// attributes (RFC 8276, Section 8.6).
const operations = 76

// TestDDPEligible: R8267-6.1-1. READ_PLUS (68), COPY (60), LAYOUTGET (50) and
// the extended attributes (72 to 75) also carry data, but are not eligible.
func TestDDPEligible(t *testing.T) {
	args := map[Op]bool{6: true, 38: true}
	results := map[Op]bool{25: true, 27: true}
	for op := range Op(operations) {
		arg, result := DDPEligible(op)
		assert.Equal(t, args[op], arg, op)
		assert.Equal(t, results[op], result, op)
	}
	arg, result := DDPEligible(10044) // ILLEGAL
	assert.False(t, arg || result)
}

// TestItems: R8267-6.1-1, by the RFC's names. The field that the RFC calls
// linkdata in READLINK4resok is link in the protocol.
func TestItems(t *testing.T) {
	named := make(map[string]Op)
	for _, i := range Items {
		named[i.Type+"."+i.Field] = i.Op
	}
	assert.Equal(t, map[string]Op{
		"WRITE4args.data": 38, "createtype4.linkdata": 6, "READ4resok.data": 25, "READLINK4resok.link": 27,
	}, named)
}
