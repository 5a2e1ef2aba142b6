export type Speech = import("./speech.js").Speech;
export declare class Socket {
    #private;
    /**
     * @param {() => URL} address with the key of the moment
     * @param {typeof WebSocket} webSocket
     * @param {() => Promise<Error>} reason why the server took no connection: a browser does not tell
     */
    constructor(address: () => URL, webSocket: typeof WebSocket, reason: () => Promise<Error>);
    get isOpen(): boolean;
    /**
     * Connect if need be; return the name of a new context, whose messages the speech will receive.
     * @param {Speech} speech
     */
    openContext(speech: Speech): Promise<string>;
    /**
     * Where the connection is lost nothing is sent; each speech hears of that by itself.
     * @param {object} message
     */
    send(message: object): void;
    close(): void;
}
