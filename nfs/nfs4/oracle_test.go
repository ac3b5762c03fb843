package nfs4

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// The oracle of these tests is a codec that was generated from the XDR of RFC
// 7863.

// readOracleOp reads one operation's number and arguments or results.
func readOracleOp(r io.Reader, result int) (m io.WriterTo, err error) {
	if result == 1 {
		m, _, err = nfsv4.ReadNfsResop4(r)
	} else {
		m, _, err = nfsv4.ReadNfsArgop4(r)
	}
	return m, err
}

// newWords returns an endless message of random words. Small ones, which are
// lengths, enumerations and booleans, are frequent.
func newWords(rng *rand.Rand) io.Reader { return randomWords{rng, new(bytes.Buffer)} }

type randomWords struct {
	rng *rand.Rand
	buf *bytes.Buffer
}

func (w randomWords) Read(p []byte) (int, error) {
	for w.buf.Len() < len(p) {
		v := uint32(0)
		switch w.rng.IntN(8) {
		case 0, 1, 2:
			v = 1
		case 3:
			v = w.rng.Uint32N(8)
		case 4:
			v = w.rng.Uint32N(64) &^ 3
		case 5:
			v = w.rng.Uint32()
		}
		w.buf.Write(binary.BigEndian.AppendUint32(nil, v))
	}
	return w.buf.Read(p)
}

// longest is the maximum length of a message from random words, in bytes.
const longest = 2048

// TestOracle reads and writes messages that the oracle accepts. The messages
// have every arm of every union. (R8881-16.2.1-1, R8881-18.30.2-1,
// R8881-18.46.3-1)
func TestOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for op := range forms {
		if op >= OpGetXattr {
			continue // RFC 8276 came later: TestXattrForms
		}
		for result := range 2 {
			accepted := 0
			for try := 0; try < 4000 && accepted < 100; try++ {
				var wire bytes.Buffer
				number := bytes.NewReader(binary.BigEndian.AppendUint32(nil, uint32(op)))
				in := io.TeeReader(io.MultiReader(number, io.LimitReader(newWords(rng), longest)), &wire)
				m, err := readOracleOp(in, result)
				if err == nil && checkAccepted(t, op, result, m, wire.Bytes()) {
					accepted++
				}
			}
			assert.GreaterOrEqual(t, accepted, 20, "%s %d", op, result)
		}
	}
}

// checkAccepted checks that this package accepts a message that the oracle has
// accepted, and encodes it so that the oracle accepts it. It returns false for a
// message with values that the oracle does not check.
func checkAccepted(t testing.TB, op Op, result int, accepted io.WriterTo, wire []byte) bool {
	t.Helper()
	m := forms[op][result]()
	r := xdr.NewReader(wire[4:])
	m.Decode(&r)
	if readList(&r, m); r.Err() != nil {
		require.False(t, isDefined(reflect.ValueOf(accepted)), "%s %d %x: %v", op, result, wire, r.Err())
		return false
	}
	require.NoError(t, r.Done(), "%s %d %x", op, result, wire)
	if isPartlyKept(m) {
		return true
	}
	r = xdr.NewReader(wire[4:])
	out := recodeOp(t, nil, &r, op, result)
	if len(out) == len(wire) { // otherwise a bitmap has lost zero words
		assert.Equal(t, wire, out, "%s %d", op, result)
		return true
	}
	read, err := readOracleOp(bytes.NewReader(out), result)
	require.NoError(t, err, "%s %d %x: %x", op, result, wire, out)
	var echo bytes.Buffer
	_, err = read.WriteTo(&echo)
	require.NoError(t, err)
	assert.Equal(t, out, echo.Bytes())
	return true
}

// enums are the first and the last value of the enumerations that this package
// checks.
var enums = map[reflect.Type][2]int64{
	reflect.TypeFor[nfsv4.StableHow4]():            {0, 2},
	reflect.TypeFor[nfsv4.NfsLockType4]():          {1, 4},
	reflect.TypeFor[nfsv4.Createmode4]():           {0, 3},
	reflect.TypeFor[nfsv4.Opentype4]():             {0, 1},
	reflect.TypeFor[nfsv4.LimitBy4]():              {1, 2},
	reflect.TypeFor[nfsv4.OpenDelegationType4]():   {0, 3},
	reflect.TypeFor[nfsv4.OpenClaimType4]():        {0, 6},
	reflect.TypeFor[nfsv4.WhyNoDelegation4]():      {0, 8},
	reflect.TypeFor[nfsv4.ChannelDirFromServer4](): {1, 3},
	reflect.TypeFor[nfsv4.StateProtectHow4]():      {0, 2},
	reflect.TypeFor[nfsv4.SecinfoStyle4]():         {0, 1},
	reflect.TypeFor[nfsv4.NetlocType4]():           {1, 3},
	reflect.TypeFor[nfsv4.DataContent4]():          {0, 1},
	reflect.TypeFor[nfsv4.RpcGssSvcT]():            {1, 3},
}

// isDefined reports whether this package must accept an oracle message: the
// values of its enumerations are defined, and its lists and attributes are not
// beyond the package's limits.
func isDefined(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && isDefined(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[nfsv4.Fattr4]() {
			return v.FieldByName("Attrmask").Len() == 0 && v.FieldByName("AttrVals").Len() == 0
		}
		for i := range v.NumField() {
			if !isDefined(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		if v.Len() > maxSecParms {
			return v.Type().Elem().Kind() == reflect.Uint8
		}
		for i := range v.Len() {
			if !isDefined(v.Index(i)) {
				return false
			}
		}
	case reflect.Int32:
		if r, ok := enums[v.Type()]; ok {
			return r[0] <= v.Int() && v.Int() <= r[1]
		}
		if v.Type() == reflect.TypeFor[nfsv4.ChannelDirFromClient4]() {
			return v.Int() >= 1 && v.Int() <= 3 || v.Int() == 7
		}
	}
	return true
}

// isPartlyKept reports whether this package keeps only part of m.
func isPartlyKept(m Message) bool {
	switch m := m.(type) {
	case *ExchangeIDArgs:
		return m.Protect.How == ProtectSSV
	case *ExchangeIDRes:
		return m.Protect.How == ProtectSSV
	case *CreateSessionArgs, *BackchannelCtlArgs:
		return true
	}
	return hasBeyond(m)
}

// readList reads the list after a message that has one. Its length is not valid
// if the message is truncated.
func readList(r *xdr.Reader, m Message) {
	if r.Err() != nil {
		return
	}
	switch m := m.(type) {
	case *ReadDirRes:
		if m.Status == OK {
			dir := DirReader{R: r}
			for e := (DirEntry{}); dir.Next(&e); {
			}
		}
	case *TestStateIDArgs:
		for range m.N {
			new(StateID).Decode(r)
		}
	case *TestStateIDRes:
		if m.Status == OK {
			for range m.N {
				r.Uint32()
			}
		}
	case *ReadPlusRes:
		if m.Status == OK {
			for range m.N {
				new(Segment).Decode(r)
			}
		}
	}
}

// attribute returns the oracle's reader for one attribute.
func attribute[T any](read func(io.Reader) (T, int64, error)) func(io.Reader) error {
	return func(r io.Reader) error {
		_, _, err := read(r)
		return err
	}
}

// composite returns the oracle's reader for an attribute that is a structure.
func composite[T any](read func(io.Reader, *T) (int64, error)) func(io.Reader) error {
	return func(r io.Reader) error {
		_, err := read(r, new(T))
		return err
	}
}

// attributes are the oracle's readers. Those of RFC 8275, RFC 8276 and
// RFC 9754 are not in RFC 7863.
var attributes = map[AttrID]func(io.Reader) error{
	AttrSupportedAttrs:    attribute(nfsv4.ReadFattr4SupportedAttrs),
	AttrType:              attribute(nfsv4.ReadFattr4Type),
	AttrFHExpireType:      attribute(nfsv4.ReadFattr4FhExpireType),
	AttrChange:            attribute(nfsv4.ReadFattr4Change),
	AttrSize:              attribute(nfsv4.ReadFattr4Size),
	AttrLinkSupport:       attribute(nfsv4.ReadFattr4LinkSupport),
	AttrSymlinkSupport:    attribute(nfsv4.ReadFattr4SymlinkSupport),
	AttrNamedAttr:         attribute(nfsv4.ReadFattr4NamedAttr),
	AttrFSID:              composite(nfsv4.ReadFattr4Fsid),
	AttrUniqueHandles:     attribute(nfsv4.ReadFattr4UniqueHandles),
	AttrLeaseTime:         attribute(nfsv4.ReadFattr4LeaseTime),
	AttrRdattrError:       attribute(nfsv4.ReadFattr4RdattrError),
	AttrACL:               attribute(nfsv4.ReadFattr4Acl),
	AttrACLSupport:        attribute(nfsv4.ReadFattr4Aclsupport),
	AttrCanSetTime:        attribute(nfsv4.ReadFattr4Cansettime),
	AttrCaseInsensitive:   attribute(nfsv4.ReadFattr4CaseInsensitive),
	AttrCasePreserving:    attribute(nfsv4.ReadFattr4CasePreserving),
	AttrChownRestricted:   attribute(nfsv4.ReadFattr4ChownRestricted),
	AttrFileHandle:        attribute(nfsv4.ReadFattr4Filehandle),
	AttrFileID:            attribute(nfsv4.ReadFattr4Fileid),
	AttrFilesAvail:        attribute(nfsv4.ReadFattr4FilesAvail),
	AttrFilesFree:         attribute(nfsv4.ReadFattr4FilesFree),
	AttrFilesTotal:        attribute(nfsv4.ReadFattr4FilesTotal),
	AttrFSLocations:       composite(nfsv4.ReadFattr4FsLocations),
	AttrHomogeneous:       attribute(nfsv4.ReadFattr4Homogeneous),
	AttrMaxFileSize:       attribute(nfsv4.ReadFattr4Maxfilesize),
	AttrMaxLink:           attribute(nfsv4.ReadFattr4Maxlink),
	AttrMaxName:           attribute(nfsv4.ReadFattr4Maxname),
	AttrMaxRead:           attribute(nfsv4.ReadFattr4Maxread),
	AttrMaxWrite:          attribute(nfsv4.ReadFattr4Maxwrite),
	AttrMode:              attribute(nfsv4.ReadFattr4Mode),
	AttrNoTrunc:           attribute(nfsv4.ReadFattr4NoTrunc),
	AttrNumLinks:          attribute(nfsv4.ReadFattr4Numlinks),
	AttrOwner:             attribute(nfsv4.ReadFattr4Owner),
	AttrOwnerGroup:        attribute(nfsv4.ReadFattr4OwnerGroup),
	AttrRawDev:            composite(nfsv4.ReadFattr4Rawdev),
	AttrSpaceAvail:        attribute(nfsv4.ReadFattr4SpaceAvail),
	AttrSpaceFree:         attribute(nfsv4.ReadFattr4SpaceFree),
	AttrSpaceTotal:        attribute(nfsv4.ReadFattr4SpaceTotal),
	AttrSpaceUsed:         attribute(nfsv4.ReadFattr4SpaceUsed),
	AttrTimeAccess:        composite(nfsv4.ReadFattr4TimeAccess),
	AttrTimeAccessSet:     attribute(nfsv4.ReadFattr4TimeAccessSet),
	AttrTimeCreate:        composite(nfsv4.ReadFattr4TimeCreate),
	AttrTimeDelta:         composite(nfsv4.ReadFattr4TimeDelta),
	AttrTimeMetadata:      composite(nfsv4.ReadFattr4TimeMetadata),
	AttrTimeModify:        composite(nfsv4.ReadFattr4TimeModify),
	AttrTimeModifySet:     attribute(nfsv4.ReadFattr4TimeModifySet),
	AttrMountedOnFileID:   attribute(nfsv4.ReadFattr4MountedOnFileid),
	AttrModeSetMasked:     composite(nfsv4.ReadFattr4ModeSetMasked),
	AttrSuppattrExclCreat: attribute(nfsv4.ReadFattr4SuppattrExclcreat),
	AttrFSCharsetCap:      attribute(nfsv4.ReadFattr4FsCharsetCap),
	AttrCloneBlkSize:      attribute(nfsv4.ReadFattr4CloneBlksize),
	AttrChangeAttrType:    attribute(nfsv4.ReadFattr4ChangeAttrType),
	AttrModeUmask:         composite(nfsv4.ReadFattr4ModeSetMasked),
	AttrXattrSupport:      attribute(nfsv4.ReadFattr4NamedAttr),
	AttrTimeDelegAccess:   composite(nfsv4.ReadFattr4TimeAccess),
	AttrTimeDelegModify:   composite(nfsv4.ReadFattr4TimeModify),
	AttrOpenArguments: func(r io.Reader) error {
		for range 5 {
			if _, _, err := nfsv4.ReadBitmap4(r); err != nil {
				return err
			}
		}
		return nil
	},
}

// TestOracleAttributes reads and writes values of each attribute that the
// oracle accepts, one at a time and all together.
//
// R8881-11.16-4, R8275-5-1.
func TestOracleAttributes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	value := func(id AttrID) []byte {
		for range 1000 {
			var wire bytes.Buffer
			err := attributes[id](io.TeeReader(io.LimitReader(newWords(rng), longest), &wire))
			if err == nil && len(decodeValues(BitmapOf(id), wire.Bytes())) > 0 {
				return wire.Bytes()
			}
		}
		t.Fatalf("no value of %s is accepted", id)
		return nil
	}
	for range 20 {
		var all []byte
		for id, more := Known.nextAttr(0); more; id, more = Known.nextAttr(id + 1) {
			require.Contains(t, attributes, id)
			v := value(id)
			got := decodeValues(BitmapOf(id), v)
			if id == AttrSupportedAttrs || id == AttrSuppattrExclCreat || id == AttrOpenArguments { // zero words are lost
				require.NoError(t, attributes[id](bytes.NewReader(got)))
			} else {
				assert.Equal(t, v, got, "%s", id)
			}
			all = append(all, got...)
		}
		assert.Equal(t, all, decodeValues(Known, all))
	}
}

// decodeValues decodes an attribute list and returns it encoded again, or nil
// if it is rejected.
func decodeValues(mask Bitmap, values []byte) []byte {
	wire := xdr.AppendOpaque(mask.AppendTo(nil), values)
	r := xdr.NewReader(wire)
	var a Attrs
	if a.Decode(&r); r.Done() != nil {
		return nil
	}
	return a.AppendTo(nil)[len(mask.AppendTo(nil))+4:]
}

// TestOracleCompounds reads each captured COMPOUND with the oracle.
func TestOracleCompounds(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		wire := wiretest.Hex(t, file)
		r := bytes.NewReader(wire)
		var echo bytes.Buffer
		if strings.HasSuffix(file, ".reply.hex") {
			var res nfsv4.Compound4res
			_, err = res.ReadFrom(r)
			require.NoError(t, err, file)
			_, err = res.WriteTo(&echo)
		} else {
			var args nfsv4.Compound4args
			_, err = args.ReadFrom(r)
			require.NoError(t, err, file)
			_, err = args.WriteTo(&echo)
		}
		require.NoError(t, err)
		assert.Zero(t, r.Len(), file)
		assert.Equal(t, wire, echo.Bytes(), file)
	}
}

// FuzzOracle checks that this package accepts each message that the oracle
// accepts, and no truncated message.
func FuzzOracle(f *testing.F) {
	for op := range forms {
		for result := range 2 {
			f.Add(uint32(op), result == 1, forms[op][result]().AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, op uint32, isResult bool, wire []byte) {
		result := 0
		if isResult {
			result = 1
		}
		if forms[Op(op)][result] == nil || len(wire) > longest {
			return
		}
		whole := append(binary.BigEndian.AppendUint32(nil, op), wire...)
		r := bytes.NewReader(whole)
		m, err := readOracleOp(r, result)
		switch {
		case err == nil:
			checkAccepted(t, Op(op), result, m, whole[:len(whole)-r.Len()])
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			own := forms[Op(op)][result]()
			in := xdr.NewReader(wire)
			own.Decode(&in)
			readList(&in, own)
			assert.Error(t, in.Err(), "the oracle misses bytes")
		}
	})
}
