package nfs4

import (
	"bytes"
	"io"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestOracleFields checks that fields of one width are not confused: this
// package and the oracle write the same bytes for the same fields.
//
// R7862-4.7-1, R7862-15.2-1, R7862-15.2-2, R7862-15.5-3, R7862-15.10-1,
// R7862-15.11-1, R7530-2.2.15-1, R7530-2.2.11-1.
func TestOracleFields(t *testing.T) {
	id, oracleID := StateID{1, [12]byte{2, 3}}, nfsv4.Stateid4{Seqid: 1, Other: [12]byte{2, 3}}
	owner, oracleOwner := StateOwner{4, []byte("own")}, nfsv4.StateOwner4{Clientid: 4, Owner: []byte("own")}
	dir, oracleDir := ChangeInfo{true, 5, 6}, nfsv4.ChangeInfo4{Atomic: true, Before: 5, After: 6}
	fore, oracleFore := ChannelAttrs{1, 2, 3, 4, 5, 6, true, 7}, nfsv4.ChannelAttrs4{
		CaHeaderpadsize: 1, CaMaxrequestsize: 2, CaMaxresponsesize: 3, CaMaxresponsesizeCached: 4, CaMaxoperations: 5, CaMaxrequests: 6, CaRdmaIrd: []uint32{7},
	}
	back, oracleBack := ChannelAttrs{MaxRequests: 8}, nfsv4.ChannelAttrs4{CaMaxrequests: 8}
	denied, oracleDenied := LockDenied{7, 8, LockWrite, owner}, nfsv4.Lock4denied{Offset: 7, Length: 8, Locktype: 2, Owner: oracleOwner}
	impl, oracleImpl := ImplID{true, []byte("d"), []byte("n"), Time{9, 10}}, []nfsv4.NfsImplId4{{NiiDomain: "d", NiiName: "n", NiiDate: nfsv4.Nfstime4{Seconds: 9, Nseconds: 10}}}
	ace, oracleACE := ACE{1, 2, 3, []byte("w")}, nfsv4.Nfsace4{Type: 1, Flag: 2, AccessMask: 3, Who: "w"}
	ops, oracleOps := StateProtect{How: ProtectMachCred, MustEnforce: BitmapOf(OpClose), MustAllow: BitmapOf(OpOpen)}, nfsv4.StateProtectOps4{
		SpoMustEnforce: []uint32{1 << OpClose}, SpoMustAllow: []uint32{1 << OpOpen},
	}
	session := SessionID{1, 15: 2}
	other, oracleOther := StateID{3, [12]byte{4, 5}}, nfsv4.Stateid4{Seqid: 3, Other: [12]byte{4, 5}}
	for name, tt := range map[string]struct {
		own    Message
		oracle io.WriterTo
	}{
		"SETCLIENTID": {&SetClientIDArgs{Verifier{1}, []byte("id"), 2, ClientAddr{[]byte("tcp"), []byte("1.2.3.4.5.6")}, 3}, &nfsv4.Setclientid4args{
			Client: nfsv4.NfsClientId4{Verifier: [8]byte{1}, Id: []byte("id")}, Callback: nfsv4.CbClient4{CbProgram: 2, CbLocation: nfsv4.Netaddr4{NaRNetid: "tcp", NaRAddr: "1.2.3.4.5.6"}}, CallbackIdent: 3,
		}},
		"SETCLIENTID's results": {&SetClientIDRes{ClientID: 1, Confirm: Verifier{2}}, &nfsv4.Setclientid4res_NFS4_OK{Resok4: nfsv4.Setclientid4resok{Clientid: 1, SetclientidConfirm: [8]byte{2}}}},
		"SETCLIENTID's refusal": {&SetClientIDRes{Status: ErrClidInUse, Using: ClientAddr{[]byte("a"), []byte("b")}}, &nfsv4.Setclientid4res_NFS4ERR_CLID_INUSE{ClientUsing: nfsv4.Netaddr4{NaRNetid: "a", NaRAddr: "b"}}},
		"SETCLIENTID_CONFIRM":   {&SetClientIDConfirmArgs{1, Verifier{2}}, &nfsv4.SetclientidConfirm4args{Clientid: 1, SetclientidConfirm: [8]byte{2}}},
		"RENEW":                 {&ClientIDArgs{1}, &nfsv4.Renew4args{Clientid: 1}},
		"OPEN_CONFIRM":          {&OpenConfirmArgs{id, 2}, &nfsv4.OpenConfirm4args{OpenStateid: oracleID, Seqid: 2}},
		"RELEASE_LOCKOWNER":     {&ReleaseLockOwnerArgs{owner}, &nfsv4.ReleaseLockowner4args{LockOwner: oracleOwner}},
		"LOCK of an existing lock owner": {&LockArgs{Type: LockRead, Length: 1, StateID: id, LockSeqID: 4}, &nfsv4.Lock4args{
			Locktype: 1, Length: 1, Locker: &nfsv4.Locker4_FALSE{LockOwner: nfsv4.ExistLockOwner4{LockStateid: oracleID, LockSeqid: 4}},
		}},
		"SEQUENCE": {&SequenceArgs{session, 1, 2, 3, true}, &nfsv4.Sequence4args{SaSessionid: session, SaSequenceid: 1, SaSlotid: 2, SaHighestSlotid: 3, SaCachethis: true}},
		"SEQUENCE's results": {&SequenceRes{0, session, 1, 2, 3, 4, 5}, &nfsv4.Sequence4res_NFS4_OK{
			SrResok4: nfsv4.Sequence4resok{SrSessionid: session, SrSequenceid: 1, SrSlotid: 2, SrHighestSlotid: 3, SrTargetHighestSlotid: 4, SrStatusFlags: 5},
		}},
		"CREATE_SESSION": {&CreateSessionArgs{1, 2, 3, fore, back, 4, SecParms{Sys: true, UID: 5, GID: 6}}, &nfsv4.CreateSession4args{
			CsaClientid: 1, CsaSequence: 2, CsaFlags: 3, CsaForeChanAttrs: oracleFore, CsaBackChanAttrs: oracleBack, CsaCbProgram: 4,
			CsaSecParms: []nfsv4.CallbackSecParms4{&nfsv4.CallbackSecParms4_AUTH_SYS{CbspSysCred: rpcv2.AuthsysParms{Uid: 5, Gid: 6}}},
		}},
		"BACKCHANNEL_CTL": {&BackchannelCtlArgs{4, SecParms{None: true, Handles: []CallbackHandles{{3, []byte("fore"), []byte("b")}}}}, &nfsv4.BackchannelCtl4args{
			BcaCbProgram: 4, BcaSecParms: []nfsv4.CallbackSecParms4{&nfsv4.CallbackSecParms4_AUTH_NONE{}, &nfsv4.CallbackSecParms4_RPCSEC_GSS{
				CbspGssHandles: nfsv4.GssCbHandles4{GcbpService: 3, GcbpHandleFromServer: []byte("fore"), GcbpHandleFromClient: []byte("b")},
			}},
		}},
		"CREATE_SESSION's results": {&CreateSessionRes{0, session, 1, 2, fore, back}, &nfsv4.CreateSession4res_NFS4_OK{
			CsrResok4: nfsv4.CreateSession4resok{CsrSessionid: session, CsrSequence: 1, CsrFlags: 2, CsrForeChanAttrs: oracleFore, CsrBackChanAttrs: oracleBack},
		}},
		"EXCHANGE_ID": {&ExchangeIDArgs{Verifier{1}, []byte("o"), 2, ops, impl}, &nfsv4.ExchangeId4args{
			EiaClientowner: nfsv4.ClientOwner4{CoVerifier: [8]byte{1}, CoOwnerid: []byte("o")}, EiaFlags: 2,
			EiaStateProtect: &nfsv4.StateProtect4A_SP4_MACH_CRED{SpaMachOps: oracleOps}, EiaClientImplId: oracleImpl,
		}},
		"EXCHANGE_ID's results": {&ExchangeIDRes{0, 1, 2, 3, ops, 4, []byte("m"), []byte("s"), impl}, &nfsv4.ExchangeId4res_NFS4_OK{EirResok4: nfsv4.ExchangeId4resok{
			EirClientid: 1, EirSequenceid: 2, EirFlags: 3, EirStateProtect: &nfsv4.StateProtect4R_SP4_MACH_CRED{SprMachOps: oracleOps},
			EirServerOwner: nfsv4.ServerOwner4{SoMinorId: 4, SoMajorId: []byte("m")}, EirServerScope: []byte("s"), EirServerImplId: oracleImpl,
		}}},
		"BIND_CONN_TO_SESSION": {&BindConnArgs{session, 7, true}, &nfsv4.BindConnToSession4args{BctsaSessid: session, BctsaDir: 7, BctsaUseConnInRdmaMode: true}},
		"OPEN": {&OpenArgs{SeqID: 1, ShareAccess: 2, ShareDeny: 3, Owner: owner, How: Exclusive1, Verf: Verifier{4}, Claim: ClaimDelegateCur, StateID: id, Name: []byte("n")}, &nfsv4.Open4args{
			Seqid: 1, ShareAccess: 2, ShareDeny: 3, Owner: oracleOwner,
			Openhow: &nfsv4.Openflag4_OPEN4_CREATE{How: &nfsv4.Createhow4_EXCLUSIVE4_1{ChCreateboth: nfsv4.Creatverfattr{CvaVerf: [8]byte{4}}}},
			Claim:   &nfsv4.OpenClaim4_CLAIM_DELEGATE_CUR{DelegateCurInfo: nfsv4.OpenClaimDelegateCur4{DelegateStateid: oracleID, File: "n"}},
		}},
		"OPEN's results": {&OpenRes{0, id, dir, 7, BitmapOf(AttrMode), OpenDelegation{Type: DelegateWrite, StateID: id, Recall: true, Limit: SpaceLimit{Blocks: true, NumBlocks: 8, BlockBytes: 9}, Permissions: ace}}, &nfsv4.Open4res_NFS4_OK{
			Resok4: nfsv4.Open4resok{Stateid: oracleID, Cinfo: oracleDir, Rflags: 7, Attrset: []uint32{0, 2}, Delegation: &nfsv4.OpenDelegation4_OPEN_DELEGATE_WRITE{
				Write: nfsv4.OpenWriteDelegation4{
					Stateid: oracleID, Recall: true, Permissions: oracleACE,
					SpaceLimit: &nfsv4.NfsSpaceLimit4_NFS_LIMIT_BLOCKS{ModBlocks: nfsv4.NfsModifiedLimit4{NumBlocks: 8, BytesPerBlock: 9}},
				},
			}},
		}},
		"OPEN_DOWNGRADE": {&OpenDowngradeArgs{id, 1, 2, 3}, &nfsv4.OpenDowngrade4args{OpenStateid: oracleID, Seqid: 1, ShareAccess: 2, ShareDeny: 3}},
		"CLOSE":          {&CloseArgs{1, id}, &nfsv4.Close4args{Seqid: 1, OpenStateid: oracleID}},
		"LOCK": {&LockArgs{LockWrite, true, 1, 2, true, 3, id, 4, owner}, &nfsv4.Lock4args{
			Locktype: 2, Reclaim: true, Offset: 1, Length: 2,
			Locker: &nfsv4.Locker4_TRUE{OpenOwner: nfsv4.OpenToLockOwner4{OpenSeqid: 3, OpenStateid: oracleID, LockSeqid: 4, LockOwner: oracleOwner}},
		}},
		"LOCK's denial": {&LockRes{Status: ErrDenied, Denied: denied}, &nfsv4.Lock4res_NFS4ERR_DENIED{Denied: oracleDenied}},
		"LOCKT":         {&LockTArgs{LockReadWait, 1, 2, owner}, &nfsv4.Lockt4args{Locktype: 3, Offset: 1, Length: 2, Owner: oracleOwner}},
		"LOCKU":         {&LockUArgs{LockRead, 1, id, 2, 3}, &nfsv4.Locku4args{Locktype: 1, Seqid: 1, LockStateid: oracleID, Offset: 2, Length: 3}},
		"READ":          {&ReadArgs{id, 1, 2}, &nfsv4.Read4args{Stateid: oracleID, Offset: 1, Count: 2}},
		"WRITE's results": {&WriteRes{0, 1, FileSync, Verifier{2}}, &nfsv4.Write4res_NFS4_OK{
			Resok4: nfsv4.Write4resok{Count: 1, Committed: 2, Writeverf: [8]byte{2}},
		}},
		"READDIR":    {&ReadDirArgs{1, Verifier{2}, 3, 4, BitmapOf(AttrSize)}, &nfsv4.Readdir4args{Cookie: 1, Cookieverf: [8]byte{2}, Dircount: 3, Maxcount: 4, AttrRequest: []uint32{1 << AttrSize}}},
		"RENAME":     {&RenameArgs{[]byte("a"), []byte("b")}, &nfsv4.Rename4args{Oldname: "a", Newname: "b"}},
		"ACCESS":     {&AccessRes{0, 1, 2}, &nfsv4.Access4res_NFS4_OK{Resok4: nfsv4.Access4resok{Supported: 1, Access: 2}}},
		"ALLOCATE":   {&RangeArgs{id, 1, 2}, &nfsv4.Allocate4args{AaStateid: oracleID, AaOffset: 1, AaLength: 2}},
		"DEALLOCATE": {&RangeArgs{id, 1, 2}, &nfsv4.Deallocate4args{DaStateid: oracleID, DaOffset: 1, DaLength: 2}},
		"COPY": {&CopyArgs{id, other, 1, 2, 3, true, false, []NetLoc{{Type: NetLocURL, Where: []byte("u")}, {Type: NetLocAddr, NetID: []byte("tcp"), Where: []byte("1.2")}, {Type: NetLocName, Where: []byte("n")}}}, &nfsv4.Copy4args{
			CaSrcStateid: oracleID, CaDstStateid: oracleOther, CaSrcOffset: 1, CaDstOffset: 2, CaCount: 3, CaConsecutive: true, CaSourceServer: []nfsv4.Netloc4{
				&nfsv4.Netloc4_NL4_URL{NlUrl: "u"}, &nfsv4.Netloc4_NL4_NETADDR{NlAddr: nfsv4.Netaddr4{NaRNetid: "tcp", NaRAddr: "1.2"}}, &nfsv4.Netloc4_NL4_NAME{NlName: "n"},
			},
		}},
		"COPY's results, final": {&CopyRes{0, WriteResponse{Count: 1, Committed: FileSync, Verf: Verifier{2}}, true, false}, &nfsv4.Copy4res_NFS4_OK{CrResok4: nfsv4.Copy4resok{
			CrResponse: nfsv4.WriteResponse4{WrCount: 1, WrCommitted: 2, WrWriteverf: [8]byte{2}}, CrRequirements: nfsv4.CopyRequirements4{CrConsecutive: true},
		}}},
		"COPY's results, with a copy stateid": {&CopyRes{0, WriteResponse{true, id, 1, DataSync, Verifier{2}}, false, true}, &nfsv4.Copy4res_NFS4_OK{CrResok4: nfsv4.Copy4resok{
			CrResponse:     nfsv4.WriteResponse4{WrCallbackId: []nfsv4.Stateid4{oracleID}, WrCount: 1, WrCommitted: 1, WrWriteverf: [8]byte{2}},
			CrRequirements: nfsv4.CopyRequirements4{CrSynchronous: true},
		}}},
		"COPY's refusal":           {&CopyRes{Status: ErrOffloadNoReqs, Consecutive: true}, &nfsv4.Copy4res_NFS4ERR_OFFLOAD_NO_REQS{CrRequirements: nfsv4.CopyRequirements4{CrConsecutive: true}}},
		"CLONE":                    {&CloneArgs{id, other, 1, 2, 3}, &nfsv4.Clone4args{ClSrcStateid: oracleID, ClDstStateid: oracleOther, ClSrcOffset: 1, ClDstOffset: 2, ClCount: 3}},
		"IO_ADVISE":                {&IOAdviseArgs{id, 1, 2, BitmapOf(AdviseRandom)}, &nfsv4.IoAdvise4args{IaaStateid: oracleID, IaaOffset: 1, IaaCount: 2, IaaHints: []uint32{1 << 3}}},
		"IO_ADVISE's results":      {&IOAdviseRes{0, BitmapOf(AdviseInitProximity)}, &nfsv4.IoAdvise4res_NFS4_OK{Resok4: nfsv4.IoAdvise4resok{IorHints: []uint32{1 << 10}}}},
		"OFFLOAD_STATUS's results": {&OffloadStatusRes{0, 1, true, ErrNoSpc}, &nfsv4.OffloadStatus4res_NFS4_OK{OsrResok4: nfsv4.OffloadStatus4resok{OsrCount: 1, OsrComplete: []nfsv4.Nfsstat4{28}}}},
		"READ_PLUS":                {&ReadArgs{id, 1, 2}, &nfsv4.ReadPlus4args{RpaStateid: oracleID, RpaOffset: 1, RpaCount: 2}},
		"data of READ_PLUS":        {&Segment{What: ContentData, Offset: 1, Data: []byte("d")}, &nfsv4.ReadPlusContent_NFS4_CONTENT_DATA{RpcData: nfsv4.Data4{DOffset: 1, DData: []byte("d")}}},
		"hole of READ_PLUS":        {&Segment{What: ContentHole, Offset: 1, Length: 2}, &nfsv4.ReadPlusContent_NFS4_CONTENT_HOLE{RpcHole: nfsv4.DataInfo4{DiOffset: 1, DiLength: 2}}},
		"SEEK":                     {&SeekArgs{id, 1, ContentHole}, &nfsv4.Seek4args{SaStateid: oracleID, SaOffset: 1, SaWhat: 1}},
		"SEEK's results":           {&SeekRes{0, true, 2}, &nfsv4.Seek4res_NFS4_OK{Resok4: nfsv4.SeekRes4{SrEof: true, SrOffset: 2}}},
		"mode_masked4":             {&ModeMasked{1, 2}, &nfsv4.ModeMasked4{MmValueToSet: 1, MmMaskBits: 2}},
		"fsid4":                    {&FSID{1, 2}, &nfsv4.Fsid4{Major: 1, Minor: 2}},
		"specdata4":                {&SpecData{1, 2}, &nfsv4.Specdata4{Specdata1: 1, Specdata2: 2}},
		"RENAME's result":          {&RenameRes{0, dir, ChangeInfo{false, 7, 8}}, &nfsv4.Rename4res_NFS4_OK{Resok4: nfsv4.Rename4resok{SourceCinfo: oracleDir, TargetCinfo: nfsv4.ChangeInfo4{Before: 7, After: 8}}}},
	} {
		var want bytes.Buffer
		_, err := tt.oracle.WriteTo(&want)
		require.NoError(t, err)
		got := tt.own.AppendTo(nil)
		assert.Equal(t, want.Bytes(), got, name)
		r := xdr.NewReader(got)
		tt.own.Decode(&r)
		require.NoError(t, r.Done(), name)
		assert.Equal(t, want.Bytes(), tt.own.AppendTo(nil), name)
	}
}

// TestOracleArms reads arms that random messages seldom have.
func TestOracleArms(t *testing.T) {
	algorithms := [][]byte{[]byte("oid"), []byte("more")}
	type arm struct {
		own    Message
		oracle io.WriterTo
	}
	arms := []arm{
		{new(ExchangeIDArgs), &nfsv4.ExchangeId4args{EiaStateProtect: &nfsv4.StateProtect4A_SP4_SSV{SpaSsvParms: nfsv4.SsvSpParms4{
			SspOps: nfsv4.StateProtectOps4{SpoMustAllow: []uint32{1}}, SspHashAlgs: algorithms, SspEncrAlgs: algorithms, SspWindow: 1, SspNumGssHandles: 2,
		}}}},
		{new(ExchangeIDRes), &nfsv4.ExchangeId4res_NFS4_OK{EirResok4: nfsv4.ExchangeId4resok{EirStateProtect: &nfsv4.StateProtect4R_SP4_SSV{SprSsvInfo: nfsv4.SsvProtInfo4{
			SpiOps: nfsv4.StateProtectOps4{SpoMustAllow: []uint32{1}}, SpiHandles: algorithms,
		}}}}},
	}
	for why := WhyNotWanted; why <= WhyIsDir; why++ {
		var none nfsv4.OpenNoneDelegation4
		switch why {
		case WhyContention:
			none = &nfsv4.OpenNoneDelegation4_WND4_CONTENTION{OndServerWillPushDeleg: true}
		case WhyResource:
			none = &nfsv4.OpenNoneDelegation4_WND4_RESOURCE{OndServerWillSignalAvail: true}
		default:
			none = &nfsv4.OpenNoneDelegation4_default{OndWhy: nfsv4.WhyNoDelegation4(why)}
		}
		arms = append(arms, arm{new(OpenDelegation), &nfsv4.OpenDelegation4_OPEN_DELEGATE_NONE_EXT{OdWhynone: none}})
	}
	for _, a := range arms {
		var wire bytes.Buffer
		_, err := a.oracle.WriteTo(&wire)
		require.NoError(t, err)
		r := xdr.NewReader(wire.Bytes())
		a.own.Decode(&r)
		require.NoError(t, r.Done(), "%#v", a.oracle)
		if d, ok := a.own.(*OpenDelegation); ok {
			assert.Equal(t, wire.Bytes(), d.AppendTo(nil))
		}
	}
}
