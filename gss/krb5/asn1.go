package krb5

const tagApplication0 = 0x60
