// Unpacks the Chromium that npm has brought into TMPDIR and tells where its program is.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
