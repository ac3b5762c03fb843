package gss_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// TestError checks the words of an error, and that its cause is found.
func TestError(t *testing.T) {
	err := error(&gss.Error{Major: gss.BadMIC, Err: io.ErrUnexpectedEOF})
	assert.EqualError(t, err, "unexpected EOF (GSS_S_BAD_MIC)")
	assert.True(t, errors.Is(err, io.ErrUnexpectedEOF))
	assert.Equal(t, "major status 0x1f0000", gss.Major(0x1f<<16).String())
}

// TestMajor checks the numbers of RFC 2744, Section 3.9.1.
func TestMajor(t *testing.T) {
	assert.EqualValues(t, 393216, gss.BadMIC)
	assert.EqualValues(t, 524288, gss.NoContext)
	assert.EqualValues(t, 589824, gss.DefectiveToken)
	assert.EqualValues(t, 786432, gss.ContextExpired)
	assert.EqualValues(t, 851968, gss.Failure)
}
