package nfs3

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestLocateRead checks that READ data are located where Decode finds them.
func TestLocateRead(t *testing.T) {
	for _, res := range []ReadRes{
		{Count: 8, EOF: true},
		{Attr: PostOpAttr{OK: true, Attr: Attr{Type: TypeReg}}, Count: 8},
		{Status: ErrAcces, Attr: PostOpAttr{OK: true, Attr: Attr{Type: TypeReg}}},
	} {
		b := append(res.AppendTo(nil), "the data"...)
		r := xdr.NewReader(b)
		assert.EqualValues(t, res.Count, LocateRead(&r))
		assert.NoError(t, r.Err())
		if res.Status == OK {
			assert.Equal(t, "the data", string(b[r.Offset():]))
		}
		short := xdr.NewReader(b[:10])
		assert.Zero(t, LocateRead(&short))
		assert.Error(t, short.Err())
	}
}
